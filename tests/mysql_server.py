"""A server of MySQL of the tests' own. Debian has it in unstable alone, whose libraries other releases lack, so
``python -m tests.mysql_server`` fetches it with them to ``.mysql``, from where `MySqlServer` starts it.
"""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import pytest

from tests.mariadb_server import MariaDbServer

HOME = Path(__file__).parents[1] / ".mysql"
_DEBIAN = "http://deb.debian.org/debian"
_PACKAGE = "mysql-server-core"
_NOT_NEEDED = ("perl", "debconf", "systemd")
_ONE_TO = re.compile(r"\bseq_(\d+)_to_(\d+)\b")


class MySqlServer(MariaDbServer):
    """As a server of MariaDB, with statements that use its tables of numbers."""

    usual = (
        "--binlog-row-metadata=FULL", "--log-bin=log", "--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency",
        "--max-allowed-packet=64M", "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--mysqlx=OFF",
        "--secure-file-priv=NULL",
        "--innodb-buffer-pool-size=32M", "--skip-name-resolve",
    )  # fmt: skip

    @staticmethod
    def require() -> None:
        if not HOME.exists():
            pytest.skip("MySQL is not there: python -m tests.mysql_server")

    def install(self) -> None:
        first = self.data.with_name("first.sql")
        who = "'root'@'127.0.0.1'"
        first.write_text(f"CREATE USER {who};\nGRANT ALL ON *.* TO {who} WITH GRANT OPTION;\n")
        words = [*self.program(), "--initialize-insecure", f"--init-file={first}"]
        subprocess.run(words, check=True, capture_output=True, timeout=120)

    def program(self) -> list[str]:
        libraries = HOME / "usr" / "lib" / "x86_64-linux-gnu"
        words = [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", f"{libraries}:{libraries}/mysql"]
        words += [str(HOME / "usr" / "sbin" / "mysqld"), "--no-defaults", f"--basedir={HOME}/usr"]
        words += [f"--lc-messages-dir={HOME}/usr/share/mysql", f"--datadir={self.data}"]
        return words + [f"--user={self.user}"] * (self.user is not None)

    def execute(self, *statements: str, **account: str) -> None:
        super().execute(*(_ONE_TO.sub(_numbers, statement) for statement in statements), **account)


def _numbers(found: re.Match[str]) -> str:
    first, last = found.groups()
    more = f"SELECT seq + 1 FROM s WHERE seq < {last}"
    return f"(WITH RECURSIVE s (seq) AS (SELECT {first} UNION ALL {more}) SELECT seq FROM s) {found[0]}"


# --- fetching it ----------------------------------------------------------------------------------------------


def fetch(folder: Path) -> None:
    """MySQL and the libraries it needs, of amd64."""
    with urllib.request.urlopen(f"{_DEBIAN}/dists/sid/main/binary-amd64/Packages.xz", timeout=60) as answer:
        listed = lzma.decompress(answer.read()).decode()
    packages: dict[str, dict[str, str]] = {}
    for paragraph in listed.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        for name in [fields.get("Package", ""), *_names(fields.get("Provides", ""))]:
            packages.setdefault(name, fields)
    wanted, files = [_PACKAGE], dict[str, None]()
    while wanted:
        name = wanted.pop()
        fields = packages.get(name, {})
        if not fields or name.startswith(_NOT_NEEDED) or fields["Filename"] in files:
            continue
        files[fields["Filename"]] = None
        wanted += [*_names(fields.get("Depends", "")), *_names(fields.get("Pre-Depends", ""))]
    with tempfile.TemporaryDirectory() as directory:
        for file in files:
            print(file.rpartition("/")[2], flush=True)
            path, _ = urllib.request.urlretrieve(f"{_DEBIAN}/{file}", Path(directory) / "package.deb")
            subprocess.run(["dpkg-deb", "-x", str(path), str(folder)], check=True)


def _names(listed: str) -> list[str]:
    """Of each package that a field lists, the first alternative."""
    return re.findall(r"(?:^|,)\s*([a-z0-9.+-]+)", listed)


if __name__ == "__main__":
    shutil.rmtree(HOME, ignore_errors=True)
    fetch(HOME)
