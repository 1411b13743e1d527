"""What a module of a row may import: a sealed worker has no disk, so that only what the zygote has preloaded is there.

A name that is missing on a system or in a Python version is left out silently.
"""

STANDARD = """
    abc array ast asyncio base64 binascii bisect calendar cmath collections collections.abc colorsys
    concurrent.futures contextlib contextvars copy csv dataclasses datetime decimal difflib dis email email.message
    email.utils enum errno fnmatch fractions functools gc hashlib heapq hmac html html.parser http inspect io
    ipaddress itertools json keyword linecache locale logging math mimetypes numbers operator os pathlib pprint
    queue quopri random re reprlib sched secrets select shlex shutil signal sqlite3 statistics string stringprep
    struct sys tempfile textwrap threading time timeit token tokenize traceback types typing unicodedata
    urllib.parse uuid warnings weakref xml.etree.ElementTree zlib zoneinfo _strptime encodings.ascii
    encodings.latin_1 encodings.utf_8 encodings.utf_16 encodings.idna encodings.cp1252 encodings.unicode_escape
    encodings.raw_unicode_escape encodings.punycode
""".split()  # noqa: SIM905
FRAMEWORKS = """
    anyio._backends._asyncio fastapi fastapi.encoders fastapi.exceptions fastapi.middleware.cors
    fastapi.middleware.gzip fastapi.middleware.httpsredirect fastapi.middleware.trustedhost fastapi.openapi.utils
    fastapi.responses fastapi.routing fastapi.security pydantic pydantic.alias_generators pydantic.dataclasses
    pydantic.deprecated.class_validators pydantic.deprecated.copy_internals pydantic.deprecated.decorator
    pydantic.deprecated.json pydantic.deprecated.parse pydantic.deprecated.tools pydantic.functional_serializers
    pydantic.generics pydantic.networks pydantic.root_model pydantic.types pydantic.validate_call_decorator sqlalchemy
    sqlalchemy.dialects.postgresql sqlalchemy.dialects.sqlite sqlalchemy.exc sqlalchemy.ext.associationproxy
    sqlalchemy.ext.asyncio sqlalchemy.ext.compiler sqlalchemy.ext.declarative sqlalchemy.ext.hybrid
    sqlalchemy.ext.mutable sqlalchemy.ext.orderinglist sqlalchemy.orm sqlalchemy.pool sqlalchemy.sql sqlalchemy.types
    starlette.authentication starlette.config starlette.middleware.base starlette.responses typing_extensions
    annotated_types email_validator multipart uvicorn
""".split()  # noqa: SIM905
