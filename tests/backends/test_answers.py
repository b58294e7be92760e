import pytest

from understudy.backends.chat.answers import MalformedAnswer, read_answer

WORDS = (3, 12)
CAPTION = "A brown dog sleeps on a red sofa."


@pytest.mark.parametrize(
    "answer",
    [
        CAPTION,
        f"  {CAPTION}\n",
        f'"{CAPTION}"',
        f"“{CAPTION}”",
        f"'{CAPTION}'",
        f"**{CAPTION}**",
        f"Sure, here is a caption:\n\n{CAPTION}",
        f"Sure! Here's a caption for an imaginary photo: {CAPTION}",
        f"Certainly! Here is one:\n\n1. {CAPTION}\n2. A cat sits on a bed.",
        f"Of course. {CAPTION}",
        f"Here is the rewritten caption:\n{CAPTION}",
        f"Caption: {CAPTION}",
        f"**Caption:** {CAPTION}",
        f"New caption: “{CAPTION}”",
        f"Image caption 1: {CAPTION}",
        f"1) {CAPTION}",
        f"- {CAPTION}",
        f"### {CAPTION}",
        f"{CAPTION}\n\nNote: I made up the colours.",
        f"{CAPTION}\n\nLet me know if you want another one!",
        f"<think>The user wants: a dog.\n\nA dog on a sofa.</think>\n\n{CAPTION}",
        f"The user wants: a dog.\n</think>\n\n{CAPTION}",  # the prompt opened it
        f"```\n{CAPTION}\n```",
        f"Here it is:\n\n```text\n{CAPTION}\n```\nIt has seven words.",
        f'{{"caption": "{CAPTION}"}}',
        f'["{CAPTION}"]',
        f'```json\n{{\n  "text": "{CAPTION}"\n}}\n```',
        f'```json {{"caption": "{CAPTION}"}} ```',  # a captioner's answer is read as one line
        "A   brown dog\tsleeps on a red  sofa.",
    ],
)
def test_what_wraps_a_caption_is_taken_off(answer: str) -> None:
    assert read_answer(answer, WORDS) == CAPTION


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("Sure, here is a caption:", "introduction only"),
        ("Caption:", "introduction only"),
        ("12345 67 89", "no words"),
        ("...", "no words"),
        ("I'm sorry, but I cannot help with that.", "refusal"),
        ("I\u2019m unable to see pictures.", "refusal"),
        ("I can't describe real people.", "refusal"),
        ("As an AI language model, I have no eyes.", "refusal"),
        ("Unfortunately, there is no image.", "refusal"),
        ("Please provide the caption you want changed.", "refusal"),
        ("It seems you forgot the caption.", "refusal"),
        ("A dog", "too short"),
        ("a " * 5 + "very long caption that goes on and on", "too long"),
        ("A _ dog sleeps on a sofa.", "blanks left"),
        ("A brown dog on the ___, asleep", "blanks left"),
        ("<think>I should say a dog", "unfinished thought"),
        ("A dog <|im_end|> sleeps there", "control characters"),
        ("A dog \ufffd\ufffd sleeps there", "control characters"),
        ("A dog \u202e sleeps there", "control characters"),
        (f"A dog {'a' * 10**6} sleeps there", "too long"),
        ("<think>" * 300_000, "unfinished thought"),
        ("A dog [/INST] sleeps there", "control characters"),
        (f'["{CAPTION}", "Something else entirely here."]', "JSON or code"),
        (f'Here is the JSON:\n{{"caption": "{CAPTION}"}}', "JSON or code"),
        (f'{{"error": "{CAPTION}"}}', "JSON or code"),
        ('["I\\u2019m unable to see pictures."]', "refusal"),
        ('["A dog \\ud800 sleeps there"]', "control characters"),
        ('["A dog \\x sleeps there"]', "JSON or code"),
        ("``` " * 300_000, "empty"),
        ('["a' + "\\" * 300_001, "JSON or code"),
        ("dog dog dog dog dog dog dog sofa", "one word again and again"),
    ],
)
def test_what_is_no_caption_is_refused_with_the_reason(answer: str, reason: str) -> None:
    with pytest.raises(MalformedAnswer, match=f"^{reason}$"):
        read_answer(answer, WORDS)


ASKED = (
    "You write captions. You answer with one caption.\n"
    "Rewrite this caption plainly, keep its subject and change a few of its words.\n"
    "Caption: a brown dog sleeps on a red sofa near the tall lamp"
)


def test_an_answer_that_gives_the_text_back_is_refused_but_a_shorter_one_is_not() -> None:
    given = "a brown dog sleeps on a red sofa near the tall lamp"
    with pytest.raises(MalformedAnswer, match="unchanged"):
        read_answer(f'"{given.capitalize()}."', (1, 60), prompt=ASKED, original=given)
    shorter = "a brown dog sleeps on a red sofa"
    assert read_answer(shorter, (1, 60), prompt=ASKED, original=given) == shorter
