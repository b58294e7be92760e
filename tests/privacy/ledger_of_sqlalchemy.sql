BEGIN TRANSACTION;
CREATE TABLE ledger_head (
	id INTEGER NOT NULL, 
	count INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	seal TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "ledger_head" VALUES(1,12,'ed6174f9952f71e55ecd33ad677884f59f3e863ba8e6c2097b6ff2aa0d9f4824','5f0d623bb10a69244619847bdd547b90cb73801b24b9138ff6ed668ca1ccc41b');
CREATE TABLE ledger_meta (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "ledger_meta" VALUES('schema','1');
INSERT INTO "ledger_meta" VALUES('key','1c0a00995b5b0ddd43d67afab6bc79b0fc0e2bbfa8e214701e2eae44d357f613');
CREATE TABLE ledger_rows (
	seq INTEGER NOT NULL, 
	previous TEXT NOT NULL, 
	entry TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "ledger_rows" VALUES(1,'0000000000000000000000000000000000000000000000000000000000000000','{"dataset":"1a0ebeaaea2ebc1b","kind":"dataset","name":"photos","sketch":{"lowest":"06dcf3e080067caab6fbd36d78c732273a1b04fb6778716946564beed040215f3e1e651d673e822b9f8e52ce95e8b2ce3e5b1de94415d13d529b5d81092970884a72f1d34db59f870e4d3285feb5996051e195be781df9838ffcd8977212d0e752bc1302a64c3dedebad110b5a4577015c567d0dbb1f9ff28e04690c225b14499524c10c7083be32c2664387c7d9ba44aa00795fa8b0ea550f0ef43994a9d337b35ef90601a683749275e12689ca8ac6e9e0884516465f9050000cf41d2de5d6","size":1024,"total":"e53d4f3beb3443f4bb627abcd8fe6a84"},"time":"2026-11-24T19:50:02.140+00:00"}','3538347dd92e5ff789976a6484e545de35082bb7a1cc08a5cdaf14a7e8992a17');
INSERT INTO "ledger_rows" VALUES(2,'3538347dd92e5ff789976a6484e545de35082bb7a1cc08a5cdaf14a7e8992a17','{"dataset":"1a0ebeaaea2ebc1b","delta":1e-05,"epsilon":2.0,"kind":"budget","time":"2026-11-24T19:50:02.148+00:00"}','fdd23c1fd072646a3ad0626b1e42ad5be63d3fecac536d8047766e5a53f53015');
INSERT INTO "ledger_rows" VALUES(3,'fdd23c1fd072646a3ad0626b1e42ad5be63d3fecac536d8047766e5a53f53015','{"dataset":"563eaa84819166c4","kind":"dataset","name":"part","sketch":{"lowest":"3e5b1de94415d13d529b5d810929708851e195be781df9838ffcd8977212d0e75c567d0dbb1f9ff28e04690c225b14499524c10c7083be32c2664387c7d9ba44","size":1024,"total":"81b7f1c1e7d728e63302e2ac65710ffc"},"time":"2026-11-24T19:50:02.161+00:00"}','dd02d8fc7f9c4d6a60d7b1c801bac5fff42db3f24c825219912dec16a2588135');
INSERT INTO "ledger_rows" VALUES(4,'dd02d8fc7f9c4d6a60d7b1c801bac5fff42db3f24c825219912dec16a2588135','{"adjacency":"add-remove","attempt":1,"dataset":"1a0ebeaaea2ebc1b","details":{"share":0.5},"event":{"kind":"gaussian","mu":0.1,"slack":1e-08},"kind":"charge","run":"r1","stage":"means","time":"2026-11-24T19:50:02.176+00:00","unit":"image"}','64c25bcdc4b27316fc247cbae76ddc8a60cda0e757134da5a270740d9e10da2d');
INSERT INTO "ledger_rows" VALUES(5,'64c25bcdc4b27316fc247cbae76ddc8a60cda0e757134da5a270740d9e10da2d','{"adjacency":"add-remove","attempt":1,"dataset":"1a0ebeaaea2ebc1b","details":{},"event":{"kind":"gaussian","mu":0.05,"slack":0.0},"kind":"charge","run":"r1","stage":"votes","time":"2026-11-24T19:50:02.176+00:00","unit":"image"}','2376936a7b3356fec38ed02077758c709cd0ae8c805ec076ad31124f8325cba8');
INSERT INTO "ledger_rows" VALUES(6,'2376936a7b3356fec38ed02077758c709cd0ae8c805ec076ad31124f8325cba8','{"adjacency":"add-remove","attempt":1,"dataset":"563eaa84819166c4","details":{"share":0.5},"event":{"kind":"gaussian","mu":0.1,"slack":1e-08},"kind":"shared charge","run":"r1","run_on":"1a0ebeaaea2ebc1b","stage":"means","time":"2026-11-24T19:50:02.176+00:00","unit":"image"}','a0049b424f9a9de28745a9108591ebdab547a1956ae47ced3eda4ee94767cc5b');
INSERT INTO "ledger_rows" VALUES(7,'a0049b424f9a9de28745a9108591ebdab547a1956ae47ced3eda4ee94767cc5b','{"adjacency":"add-remove","attempt":1,"dataset":"563eaa84819166c4","details":{},"event":{"kind":"gaussian","mu":0.05,"slack":0.0},"kind":"shared charge","run":"r1","run_on":"1a0ebeaaea2ebc1b","stage":"votes","time":"2026-11-24T19:50:02.176+00:00","unit":"image"}','54de19d82256b9dd10ce2b57158adb8baff1136e98ab3e9434494b3644bcbae5');
INSERT INTO "ledger_rows" VALUES(8,'54de19d82256b9dd10ce2b57158adb8baff1136e98ab3e9434494b3644bcbae5','{"attempt":1,"dataset":"1a0ebeaaea2ebc1b","digest":"00ff","kind":"release","run":"r1","stage":"means","time":"2026-11-24T19:50:02.214+00:00"}','fe47c5cd029fa4296dc15b17cd5e6b648fca510e5617dc3e299e70e2bce11d0b');
INSERT INTO "ledger_rows" VALUES(9,'fe47c5cd029fa4296dc15b17cd5e6b648fca510e5617dc3e299e70e2bce11d0b','{"adjacency":"add-remove","attempt":1,"dataset":"563eaa84819166c4","details":{},"event":{"kind":"gaussian","mu":0.2,"slack":0.0},"kind":"charge","run":"r2","stage":"means","time":"2026-11-24T19:50:02.231+00:00","unit":"image"}','9263d604845f221e5c35d2385eee3283f61a26094baa63154ea58d71c122c2c0');
INSERT INTO "ledger_rows" VALUES(10,'9263d604845f221e5c35d2385eee3283f61a26094baa63154ea58d71c122c2c0','{"adjacency":"add-remove","attempt":1,"dataset":"1a0ebeaaea2ebc1b","details":{},"event":{"kind":"gaussian","mu":0.2,"slack":0.0},"kind":"shared charge","run":"r2","run_on":"563eaa84819166c4","stage":"means","time":"2026-11-24T19:50:02.231+00:00","unit":"image"}','32a10e75617547ad423d480e65edcd797798edde6f5db599d47a4f9008c8932f');
INSERT INTO "ledger_rows" VALUES(11,'32a10e75617547ad423d480e65edcd797798edde6f5db599d47a4f9008c8932f','{"dataset":"563eaa84819166c4","kind":"disclosure","run":"r3","time":"2026-11-24T19:50:02.251+00:00","what":"which 2 of 4 candidates are released"}','909a8c2f4dbc2c2da2a565a7caf3c696a0e0df8dfceb26ea78b8dc5ca8826c4c');
INSERT INTO "ledger_rows" VALUES(12,'909a8c2f4dbc2c2da2a565a7caf3c696a0e0df8dfceb26ea78b8dc5ca8826c4c','{"dataset":"1a0ebeaaea2ebc1b","kind":"shared disclosure","run":"r3","run_on":"563eaa84819166c4","time":"2026-11-24T19:50:02.251+00:00","what":"which 2 of 4 candidates are released"}','ed6174f9952f71e55ecd33ad677884f59f3e863ba8e6c2097b6ff2aa0d9f4824');
COMMIT;