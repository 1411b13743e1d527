import pytest
from climbing import TASKS, climbing, with_sizes, with_values

from awm_hub.synthesis.products import read_records
from awm_hub.synthesis.stages.task import check, prompt, render

FINE = "Please move the bouldering evening of tomorrow to the next day and tell nobody about it yet."


async def test_good_tasks_pass() -> None:
    assert await check(climbing()) == ()


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("do it", "[wrong_type: book_ama] must be an object with kind and instruction"),
        ({"kind": "change", "instruction": 5}, "[wrong_type: book_ama] instruction must be a text"),
        ({"kind": "write", "instruction": FINE}, "[kind: book_ama] kind must be one of query, change, both"),
        ({"kind": ["query"], "instruction": FINE}, "[kind: book_ama] kind must be one of query, change, both"),
        (
            {"kind": "change", "instruction": FINE, "answer": 3},
            "[unknown_key: book_ama] holds answer; only kind and instruction are wanted",
        ),
        (
            {"kind": "change", "instruction": "Book Ama."},
            "[instruction_length: book_ama] instruction has 9 characters; 60 to 1200 are wanted",
        ),
        (
            {"kind": "change", "instruction": f"Log in first. {FINE}"},
            "[screen_words: book_ama] says 'Log in': agents have tools and no screen, and are logged in; say what is "
            "wanted instead",
        ),
        (
            {"kind": "change", "instruction": f"{FINE} The course has id 17."},
            "[internal_id: book_ama] says 'id 17': users do not know internal ids; name the thing by its name, code or "
            "date",
        ),
        (
            {"kind": "change", "instruction": TASKS["price_of_lead_basics"]["instruction"] + " Now?"},
            "[alike: book_ama] asks nearly the same as price_of_lead_basics: write another task in its place",
        ),
    ],
)
async def test_each_slip_is_one_problem(task: object, expected: str) -> None:
    assert [str(p) for p in await check(with_values(climbing(), "task", book_ama=task))] == [expected]


async def test_words_of_a_screen_are_a_warning() -> None:
    draft = with_values(climbing(), "task", book_ama={"kind": "change", "instruction": f"{FINE} Click on save."})
    assert [p.severity for p in await check(draft)] == ["warning"]


@pytest.mark.parametrize("slug", ["Book_Ama", "book-ama", "4_ama", "class", "x" * 41, "buché", ""])
async def test_a_slug_is_a_lower_case_identifier(slug: str) -> None:
    draft = with_values(climbing(), "task", book_ama=None, **{slug: TASKS["book_ama"]})
    (problem,) = await check(draft)
    assert (problem.rule, problem.subject) == ("slug", slug)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (4, "there are 3 tasks; exactly 4 are wanted: add some"),
        (2, "there are 3 tasks; exactly 2 are wanted: name those that go under remove"),
    ],
)
async def test_the_number_of_tasks_is_exact(wanted: int, message: str) -> None:
    (problem,) = await check(with_sizes(climbing(), tasks=wanted))
    assert (problem.rule, problem.message) == ("task_count", message)


async def test_both_kinds_are_wanted() -> None:
    queries = {slug: {**task, "kind": "query"} for slug, task in TASKS.items()}
    changes = {slug: {**task, "kind": "change"} for slug, task in TASKS.items()}
    found = [await check(with_values(climbing(), "task", **tasks)) for tasks in (queries, changes)]
    assert [[str(p) for p in problems] for problems in found] == [
        ["[kinds_mix] no task changes anything: change or both"],
        ["[kinds_mix] no task is a query"],
    ]


async def test_many_problems_are_cut_off_and_counted() -> None:
    draft = with_values(climbing(), "task", **{f"t{n}": {} for n in range(20)})
    problems = await check(draft)
    assert len(problems) == 13
    assert str(problems[-1]) == "[more_problems] 29 more problems of these kinds are not shown"


def test_the_product_is_shown_in_the_form_of_an_answer() -> None:
    parts = climbing().parts("task")
    assert read_records(render(parts)).parts == parts


def test_the_prompt_asks_for_a_mix_of_kinds() -> None:
    text = prompt(with_sizes(climbing(), tasks=10))
    assert "exactly 10 tasks" in text
    assert "2 × `query`" in text
    assert "5 × `change`" in text
    assert "3 × `both`" in text
