import dataclasses

import pytest
from playground.hostile import ATTACK, check_harmless, hostile

import awm_hub
from awm_hub.environment import Environment
from awm_hub.errors import AwmHubError, DataError, EpisodeError
from awm_hub.playground import diagram, fragments, plots
from awm_hub.playground.catalogue import Entry, statistics
from awm_hub.playground.relations import relations, seed_rows

LIBRARY = awm_hub.load()["public_library_1"]


@pytest.fixture
def attacking(notes_environment: Environment) -> Environment:
    return hostile(notes_environment)


def entry(**changes: object) -> Entry:
    found = Entry(
        id="ferry_1",
        title="Ferry",
        summary="A ferry port.",
        categories=("travel",),
        split="train",
        usage="train",
        interface="functions",
        tables_count=3,
        tools_count=1,
        tasks_count=2,
        difficulties=(2, 5),
        flags=frozenset({"audited", "sound"}),
    )
    return dataclasses.replace(found, **changes)


@pytest.mark.parametrize("piece", ["head", "scenario", "audit", "provenance", "tools", "tasks"])
def test_no_text_of_an_environment_acts_on_the_page(attacking: Environment, piece: str) -> None:
    shown = getattr(fragments, piece)(attacking)
    check_harmless(shown)
    assert "&lt;script&gt;" in shown


def test_a_hostile_diagram_is_only_shapes_and_text(attacking: Environment) -> None:
    shown = diagram.diagram(relations(attacking), ATTACK)
    check_harmless(shown)
    assert "&lt;script&gt;" in shown


def test_a_hostile_card_is_one_link_to_its_own_page() -> None:
    shown = fragments.gallery([entry(title=ATTACK, summary=ATTACK, categories=(ATTACK,))], dataset=ATTACK)
    check_harmless(shown)
    assert shown.count("<a ") == 1


def test_hostile_categories_are_text_in_the_plots() -> None:
    check_harmless(plots.plots(statistics([entry(categories=(ATTACK,))])))


def test_a_hostile_seed_gives_its_values_as_they_are(attacking: Environment) -> None:
    found = seed_rows(attacking, attacking.tables[0].name)
    assert found.rows == ((1, ATTACK),)


def test_a_card_says_what_the_environment_is_and_where_it_leads() -> None:
    shown = fragments.card(entry(), dataset="owner/name")
    assert 'href="?dataset=owner%2Fname&amp;env=ferry_1"' in shown
    assert 'data-environment="ferry_1"' in shown
    assert "<b>1</b> tool<" in shown
    assert "<b>2–5</b> calls" in shown
    assert "no audit error" in shown


def test_a_gallery_without_cards_says_so() -> None:
    assert "Nothing fits" in fragments.gallery([])


def test_a_tool_shows_its_parameters_and_what_it_does_to_the_database() -> None:
    shown = fragments.tool_card(LIBRARY.tool("search_members"))
    assert "reads" in shown
    assert "<td><code>query</code></td><td>string</td><td>required</td>" in shown
    assert "Input schema" in shown


def test_a_task_shows_audit_results_and_folds_its_solution_away() -> None:
    task, quality = LIBRARY.tasks[0], LIBRARY.quality.tasks[0]
    shown = fragments.task_card(task, quality)
    before, _, spoilers = shown.partition("<details>")
    assert "20 of 20 mutants fail" in before
    assert "list_loans" not in before
    assert "list_loans" in spoilers
    assert 'data-tab="play" data-task="overdue_at_millbrook"' in before


def test_results_of_another_content_are_not_shown() -> None:
    changed = dataclasses.replace(LIBRARY, content_hash="0" * 64)
    assert "mutants fail" not in fragments.tasks(changed)
    assert "of another content" in fragments.audit(changed)


def test_an_environment_that_was_not_audited_says_so() -> None:
    assert "Not audited" in fragments.audit(dataclasses.replace(LIBRARY, quality=None))


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer ≥ 1 ≤ 9"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"enum": ["a", 1]}, '"a" | 1'),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        ({"type": ["string", "null"]}, "string or null"),
        ({}, "any"),
    ],
)
def test_a_type_is_told_in_a_few_words(schema: dict, told: str) -> None:
    assert fragments.type_of(schema) == told


def test_plots_are_pictures_that_are_told_in_words() -> None:
    shown = plots.plots(statistics([entry(), entry(id="b", tools_count=40, difficulties=(2,))]))
    check_harmless(shown)
    assert "<desc>travel: 2</desc>" in shown
    assert "<desc>2: 2 tasks; 3: 0 tasks; 4: 0 tasks; 5: 1 tasks</desc>" in shown


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DataError("no file", next_step="upload one"), "No file. Upload one."),
        (DataError("gone."), "Gone."),
        (EpisodeError("ended", next_step="POST /instances opens a new instance"), "Ended."),
        (DataError("no x", next_step="check the name. `awm-hub list` shows all"), "No x. Check the name."),
    ],
)
def test_an_error_is_told_in_sentences_without_advice_for_a_terminal(error: AwmHubError, told: str) -> None:
    assert fragments.told(error) == told
