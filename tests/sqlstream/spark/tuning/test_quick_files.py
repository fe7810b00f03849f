"""Local files of Spark get their permissions, checksums and errors without a process for each."""

from __future__ import annotations

import pytest

from sqlstream.spark.tuning.applied import _QUICK_FILES_FILTER, CLASS, _classes_of, use_quick_files

pytestmark = pytest.mark.spark


@pytest.fixture
def files(spark):
    """Hadoop's local file system, as Spark's checkpoints use it."""
    root = spark._jvm.java.net.URI("file:///")
    return spark._jvm.org.apache.hadoop.fs.FileSystem.get(root, spark.sparkContext._jsc.hadoopConfiguration())


def plain(files) -> tuple:
    """The innermost file system, and the name of its class."""
    while _QUICK_FILES_FILTER in _classes_of(files):
        files = files.getRawFileSystem()
    return files, files.getClass().getName()


@pytest.fixture
def path_of(spark, tmp_path):
    return lambda name: spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path / name))


def test_files_have_permissions_and_checksums_as_without(files, path_of, tmp_path):
    assert plain(files)[1] == CLASS
    files.create(path_of("new"), True).close()
    files.mkdirs(path_of("folder"))
    assert {p.name: oct(p.stat().st_mode & 0o7777) for p in tmp_path.iterdir()} == {
        "new": "0o644", ".new.crc": "0o644", "folder": "0o755"
    }  # fmt: skip


@pytest.mark.parametrize("mode", [0o640, 0o700, 0o1777])
def test_permissions_can_be_set(spark, files, path_of, tmp_path, mode):
    (tmp_path / "folder").mkdir()
    files.setPermission(path_of("folder"), spark._jvm.org.apache.hadoop.fs.permission.FsPermission(mode))
    assert (tmp_path / "folder").stat().st_mode & 0o7777 == mode


def test_what_is_not_there_is_an_error(spark, files, path_of):
    permission = spark._jvm.org.apache.hadoop.fs.permission.FsPermission(0o600)
    with pytest.raises(Exception, match="NoSuchFileException"):
        files.setPermission(path_of("nowhere"), permission)


def test_a_second_session_in_the_same_process_changes_nothing(spark, files):
    before, name = plain(files)
    use_quick_files(spark)
    assert (plain(files)[0].hashCode(), plain(files)[1]) == (before.hashCode(), name)


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_folders_keep_what_gives_their_files_to_a_group(spark, files, path_of, tmp_path, mode):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(0o2770)
    files.setPermission(path_of("folder"), spark._jvm.org.apache.hadoop.fs.permission.FsPermission(mode))
    assert (tmp_path / "folder").stat().st_mode & 0o7777 == 0o2000 | mode
    files.mkdirs(path_of("folder/inner"))
    assert (tmp_path / "folder/inner").stat().st_mode & 0o7777 == 0o2755
