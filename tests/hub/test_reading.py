import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import awm_hub
from awm_hub import schema
from awm_hub.errors import FormatVersionError, LimitError, RecordError
from awm_hub.hub import reading

SHARD = "environments/train-00000-of-00001.parquet"


def read(path):
    return awm_hub.load(path)["notes"]


def damaged(dataset, change):
    path = dataset / SHARD
    path.write_bytes(change(path.read_bytes()))
    return dataset


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-4] + b"PAR2",
        lambda data: data[:-8] + b"\xff\xff\xff\x7f" + data[-4:],
        lambda data: b"not parquet at all" * 50,
    ],
)
def test_a_damaged_file_is_reported_by_its_name(dataset, change):
    with pytest.raises(
        RecordError, match=f"{SHARD} is not a readable Parquet file: .*\n  next: fetch or pack"
    ) as caught:
        read(damaged(dataset, change))
    assert caught.value.exit_code == 3


def test_no_damaged_byte_goes_unnoticed_or_crashes(dataset):
    whole = (dataset / SHARD).read_bytes()
    expected = read(dataset)
    step = len(whole) // 80
    for at in range(0, len(whole), step):
        flipped = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        try:
            found = read(damaged(dataset, lambda _, data=flipped: data))
        except RecordError:
            continue
        assert found == expected, f"byte {at}"


@pytest.mark.parametrize("at", [0, 4, 100, 500])
def test_a_damaged_index_is_reported_by_its_name(dataset, at):
    path = dataset / "index.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:at] + b"\xff" * 16 + data[at + 16 :])
    with pytest.raises(RecordError, match=r"index\.parquet"):
        awm_hub.load(dataset)


def test_a_missing_column_is_named(one_file):
    with pytest.raises(RecordError, match=r"one.parquet has no column 'tools'\n  next: is this an awm-hub dataset\?"):
        read(one_file(lambda t: t.drop_columns(["tools"])))
    with pytest.raises(RecordError, match=r"one.parquet has no column 'database'"):
        read(one_file(lambda t: t.drop_columns(["database"])))


def test_a_file_of_something_else_is_refused(tmp_path):
    pq.write_table(pa.table({"text": ["hello"]}), tmp_path / "one.parquet")
    with pytest.raises(RecordError, match="has no column 'id'"):
        awm_hub.load(tmp_path)


@pytest.mark.parametrize(
    ("column", "type_", "message"),
    [
        ("code", pa.int64(), "column 'code' is int64\n  next: expected string"),
        ("database", pa.string(), "column 'database' is string\n  next: expected binary"),
        ("clock", pa.timestamp("us"), "column 'clock' is timestamp"),
        ("requires", pa.string(), "column 'requires' is string\n  next: expected list<string>"),
        ("tables", pa.list_(pa.struct([("name", pa.string())])), "column 'tables' is list"),
        ("quality", pa.string(), "column 'quality' is string\n  next: expected struct<schema_errors, "),
    ],
)
def test_a_column_of_another_type_is_refused(one_file, column, type_, message):
    def change(table):
        return table.set_column(table.schema.get_field_index(column), column, pa.nulls(1, type_))

    with pytest.raises(RecordError, match=message):
        read(one_file(change))


def test_a_repeated_column_is_refused(one_file):
    with pytest.raises(RecordError, match="repeats the column 'code'"):
        read(one_file(lambda t: t.append_column("code", t.column("code"))))


def test_more_columns_and_fields_are_left_alone(one_file, notes_environment):
    def change(table):
        fields = [*schema.TOOL, pa.field("colour", pa.string())]
        tools = [[{**tool, "colour": "blue"} for tool in row] for row in table.column("tools").to_pylist()]
        table = table.set_column(
            table.schema.get_field_index("tools"), "tools", pa.array(tools, pa.list_(pa.struct(fields)))
        )
        return table.append_column("later", pa.array(["x"]))

    assert read(one_file(change)) == notes_environment


def test_types_of_other_writers_are_read(one_file, notes_environment):
    def change(table):
        for name, type_ in (
            ("code", pa.large_string()),
            ("database", pa.large_binary()),
            ("format_version", pa.int64()),
        ):
            table = table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(type_))
        return table

    assert read(one_file(change)) == notes_environment


def test_lists_named_by_other_writers_are_read(notes_dataset, tmp_path, notes_environment):
    pq.write_table(pq.read_table(notes_dataset / SHARD), tmp_path / "one.parquet", use_compliant_nested_type=False)
    environments = awm_hub.load(tmp_path / "one.parquet")
    assert environments.entries["notes"].tools_count == 6
    assert environments["notes"] == notes_environment


def test_a_newer_format_is_refused_with_what_to_install(one_file):
    with pytest.raises(
        FormatVersionError, match=r"row 'notes' has format version 2; .* up to 1\n  next: pip install -U"
    ):
        read(one_file(format_version=2))


def test_a_newer_format_is_recognised_before_its_columns_are(dataset):
    path = dataset / SHARD
    table = pq.read_table(path)
    version = pa.array([2], pa.int32())
    table = table.set_column(table.schema.get_field_index("format_version"), "format_version", version)
    pq.write_table(table.drop_columns(["tools", "database"]), path)
    with pytest.raises(FormatVersionError, match="has format version 2"):
        read(dataset)


@pytest.mark.parametrize("version", [0, -1, None])
def test_a_row_without_a_version_is_refused(dataset, version):
    path = dataset / SHARD
    table = pq.read_table(path)
    at = table.schema.get_field_index("format_version")
    pq.write_table(table.set_column(at, "format_version", pa.array([version], pa.int32())), path)
    with pytest.raises(RecordError, match="row 'notes' has no format_version"):
        read(dataset)


@pytest.mark.parametrize(
    ("column", "value", "error", "message"),
    [
        ("code", "x" * (schema.MAX_CODE_BYTES + 1), LimitError, "code holds 2097153 bytes"),
        ("code", "x" * (20 * 2**20), LimitError, "code holds .* bytes, at most"),
        ("verifier_module", "x" * (schema.MAX_CODE_BYTES + 1), LimitError, "verifier_module holds"),
        ("further_ddl", ["x" * 2**20] * 65, LimitError, "further_ddl holds .* bytes"),
        ("description", "x" * (schema.MAX_TEXT_BYTES + 1), LimitError, "description holds"),
        ("image_sha256", "0" * 64, RecordError, "row 'notes': database does not match image_sha256"),
        ("database", b"no database", RecordError, "database does not match image_sha256"),
        ("database", None, RecordError, "database is NoneType"),
        ("title", None, RecordError, "bad entry"),
        ("tables", None, RecordError, "row 'notes' breaks the format"),
        ("provenance", None, None, ""),
        ("interface", "shell", RecordError, "interface is 'shell'"),
        ("usage", "sell", RecordError, "usage is 'sell'"),
    ],
)
def test_a_row_beyond_the_format_is_refused(one_file, column, value, error, message):
    path = one_file(**{column: value})
    if error is None:
        assert read(path).id == "notes"
    else:
        with pytest.raises(error, match=message):
            read(path)


def tool(**changes):
    plain = {"name": "t", "description": "", "input_schema": "{}", "output_schema": None, "effect": "read"}
    return [{**plain, **changes}]


def task(**changes):
    plain = {"id": "notes/a", "instruction": "Do.", "kind": None, "setup": [], "answer": None, "answer_order": "any",
             "answer_sql": None, "free": [], "solution": None, "verifiers": []}  # fmt: skip
    return [{**plain, **changes}]


def verifier(**changes):
    plain = {"kind": "signals", "function": "f", "code": None, "success_criteria": "", "failure_criteria": ""}
    return task(verifiers=[{**plain, **changes}])


@pytest.mark.parametrize(
    ("column", "value", "error", "message"),
    [
        ("tools", tool(input_schema='{"a":' * 100 + "1" + "}" * 100), LimitError, "nested deeper than 64"),
        ("tools", tool(input_schema="[]"), RecordError, "a JSON object is expected"),
        ("tools", tool(input_schema='{"a":NaN}'), RecordError, "NaN is not a JSON value"),
        ("tools", tool(input_schema="{"), RecordError, "not valid JSON"),
        ("tools", tool(input_schema=None), RecordError, "breaks the format"),
        ("tools", tool(input_schema='"' + "x" * (8 * 2**20) + '"'), LimitError, "longer than 8388608 bytes"),
        ("tools", tool(name="rm -rf /"), RecordError, "bad tool name 'rm -rf /'"),
        ("tools", tool() * 2, RecordError, "repeated tool name"),
        ("tools", tool(effect="explode"), RecordError, "effect of a tool is 'explode'"),
        ("tasks", task(id="notes/../x"), RecordError, "bad task id"),
        ("tasks", task(id="other/a"), RecordError, "belongs to another environment"),
        ("tasks", task() * 2, RecordError, "repeated task id"),
        ("tasks", task(kind="steal"), RecordError, "kind of a task is 'steal'"),
        ("tasks", task(answer_order="none"), RecordError, "answer_order of a task is 'none'"),
        ("tasks", task(answer="1" + "0" * 5000), RecordError, "not valid JSON"),
        ("tasks", task(solution='{"tool":"x"}'), RecordError, "a list of calls is expected"),
        ("tasks", task(solution='["x"]'), RecordError, "breaks the format"),
        ("tasks", task(solution='[{"tool":"x","arguments":[]}]'), RecordError, "a JSON object is expected"),
        ("tasks", verifier(function="os.system"), RecordError, "bad verifier function 'os.system'"),
        ("tasks", verifier(function="f" * 65), RecordError, "bad verifier function"),
        ("tasks", verifier(kind="../x"), RecordError, "kind of a verifier is '../x'"),
    ],
)
def test_a_hostile_tool_or_task_is_refused(one_file, column, value, error, message):
    with pytest.raises(error, match=message):
        read(one_file(**{column: value}))


@pytest.mark.parametrize("name", ["../../etc", "Notes", "", "x" * 65, "health", None, "notes\n"])
def test_a_hostile_id_is_refused(one_file, name):
    path = one_file(id=name)
    with pytest.raises(RecordError, match=r"bad entry|belongs to another"):
        awm_hub.load(path)[str(name)]


def test_text_that_is_no_utf8_is_refused(one_file):
    def change(table):
        code = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
        return table.set_column(table.schema.get_field_index("code"), "code", code)

    with pytest.raises(RecordError, match=r"one\.parquet is not a readable Parquet file: .*utf-8"):
        read(one_file(change))


def test_a_row_group_beyond_the_limit_is_refused_unread(dataset, monkeypatch):
    monkeypatch.setattr(schema, "MAX_ROW_GROUP_BYTES", 10_000)
    with pytest.raises(LimitError, match=r"row group 0 holds \d+ bytes, at most 10000 are read"):
        read(dataset)


def test_too_many_rows_or_values_are_refused_unread(dataset, monkeypatch):
    monkeypatch.setattr(reading, "MAX_GROUP_VALUES", 50)
    with pytest.raises(LimitError, match=r"holds 1 rows with \d+ values, too many"):
        read(dataset)


def test_an_image_beyond_the_limit_is_refused(dataset, monkeypatch):
    monkeypatch.setattr(schema, "MAX_IMAGE_BYTES", 1_000)
    with pytest.raises(LimitError, match=r"row 'notes': database holds \d+ bytes, at most 1000 are read"):
        read(dataset)


def test_a_bomb_of_repeated_cells_is_refused_without_unfolding_it(one_file):
    def change(table):
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int32()), ["x" * 2**20])
        bomb = pa.ListArray.from_arrays(pa.array([0, 500], pa.int32()), texts)
        return table.set_column(table.schema.get_field_index("further_ddl"), "further_ddl", bomb)

    path = one_file(change)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(LimitError, match=r"further_ddl holds \d+ bytes, at most"):
        read(path)
    assert pa.default_memory_pool().max_memory() - before < 50 * 2**20


def test_a_bomb_in_the_index_is_refused_without_unfolding_it(dataset, tmp_path):
    path = dataset / "index.parquet"
    row = pq.read_table(path).to_pylist()[0]
    title = pa.DictionaryArray.from_arrays(pa.array([0] * 600, pa.int32()), ["x" * 2**20])
    table = pa.Table.from_pylist([row] * 600, schema=schema.INDEX)
    table = table.set_column(table.schema.get_field_index("title"), "title", title)
    pq.write_table(table, path)
    with pytest.raises(LimitError, match="the light columns of row group 0 unfold to"):
        awm_hub.load(dataset)
