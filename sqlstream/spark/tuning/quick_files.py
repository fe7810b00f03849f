"""Files of a local session without a process for each: Hadoop runs ``chmod`` for every file that it makes.

That is 8 to 10 processes per micro-batch with state, each of which takes as long as writing ten files. Java has a call
for it. As ``chmod`` it leaves folders the bits by which their files get their group. The class that uses it is compiled
where Spark runs, by the compiler that Spark brings along.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlstream.spark.connect import is_connect
from sqlstream.spark.internals import hadoop_configuration, java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS = "QuickLocalFiles"
_HADOOP = "org.apache.hadoop.fs"
_FILTER = f"{_HADOOP}.FilterFileSystem"
_SOURCE = f"""
public class {CLASS} extends {_HADOOP}.RawLocalFileSystem {{
    public void setPermission({_HADOOP}.Path path, {_HADOOP}.permission.FsPermission permission)
            throws java.io.IOException {{
        if (permission.getStickyBit()) {{
            super.setPermission(path, permission);
            return;
        }}
        java.nio.file.Path file = pathToFile(path).toPath();
        int mode = ((Integer) java.nio.file.Files.getAttribute(file, "unix:mode")).intValue();
        int kept = (mode & 0170000) == 0040000 ? mode & 06000 : 0;
        java.nio.file.Files.setAttribute(file, "unix:mode", Integer.valueOf(permission.toShort() & 0777 | kept));
    }}
}}
"""


def use_quick_files(spark: SparkSession) -> None:
    """Lets this session set permissions of local files without starting a process.

    Changes nothing through Spark Connect, and where a file system of the user's is configured or Hadoop has its
    native library.
    """
    if os.name != "posix" or is_connect(spark):
        return
    jvm, conf = java_of(spark), hadoop_configuration(spark)
    if jvm is None or conf is None:
        return
    root = jvm.java.net.URI("file:///")
    holder = _holder_of_raw_files(jvm.org.apache.hadoop.fs.FileSystem.get(root, conf))
    if holder is None or jvm.org.apache.hadoop.io.nativeio.NativeIO.isAvailable():
        return
    files = _compiled(jvm)
    files.initialize(root, conf)
    # The holder, which is kept for all of Spark, adds checksums and stays as it is; no setting names our class.
    field = jvm.java.lang.Class.forName(_FILTER).getDeclaredField("fs")
    field.setAccessible(True)
    field.set(holder, files)


def _holder_of_raw_files(files: Any) -> Any:
    """The file system right above Hadoop's plain files; None where those are not found."""
    while _FILTER in _classes_of(files):
        inner = files.getRawFileSystem()
        if inner.getClass().getName() == f"{_HADOOP}.RawLocalFileSystem":
            return files
        files = inner
    return None


def _classes_of(value: Any) -> Iterator[str]:
    """The names of its class and of those above."""
    java_class = value.getClass()
    while java_class is not None:
        yield java_class.getName()
        java_class = java_class.getSuperclass()


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.ClassLoader.getSystemClassLoader())
    compiler.cook(_SOURCE)
    return compiler.getClassLoader().loadClass(CLASS).newInstance()
