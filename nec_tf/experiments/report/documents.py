"""Tables and pictures of a report inside of documents, between markers.

`<!-- report:summary -->` ... `<!-- /report -->` holds the table `summary`; a name that ends with
.png holds that picture. What stands between the markers is replaced.
"""

import os
import re
import shutil
import textwrap
from collections.abc import Iterable
from pathlib import Path

from nec_tf.experiments.report.tables import Table
from nec_tf.runtime.errors import UserError

_LINE = 100  # characters of a line of text
_MARKED = re.compile(
    r"(?P<begin><!-- report:(?P<name>\S+) -->\n).*?(?P<end>^<!-- /report -->)", re.DOTALL | re.M
)


def update(
    documents: Iterable[Path], tables: Iterable[Table], pictures: Iterable[Path], folder: Path
) -> list[Path]:
    """Writes tables and pictures into documents; returns the files that were written.

    Args:
        documents: Markdown files with markers.
        tables: Of a report; of several tables of one CSV file the first one has its name.
        pictures: PNG files of a report.
        folder: Where pictures that a document shows are copied to.

    Raises:
        UserError: A marker names no table or picture of this report.
    """
    shown: dict[str, Table] = {}
    for table in tables:
        if table.columns:
            shown.setdefault(table.file, table)
    drawn = {picture.name: picture for picture in pictures}
    written: list[Path] = []
    for document in documents:

        def block(match: re.Match, document: Path = document) -> str:
            name = match["name"]
            if name in drawn:
                folder.mkdir(parents=True, exist_ok=True)
                copied = Path(shutil.copyfile(drawn[name], folder / name))
                written.append(copied)
                place = os.path.relpath(copied, document.parent)
                label = name.removesuffix(".png").replace("_", " ").capitalize()
                return f"{match['begin']}![{label}]({place})\n{match['end']}"
            if name in shown:
                table = shown[name]
                caption = textwrap.fill(f"{table.caption}.", _LINE)
                text = f"{caption}\n\n{table.to_markdown()}"
                return f"{match['begin']}{text}\n{match['end']}"
            known = ", ".join([*shown, *drawn])
            raise UserError(f"{document} asks for report:{name}; this report has {known}")

        before = document.read_text()
        after = _MARKED.sub(block, before)
        if after != before:
            document.write_text(after)
            written.append(document)
    return written
