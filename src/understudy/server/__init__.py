"""The server of SpinML: takes jobs from devices, and sees nothing but the wire."""
