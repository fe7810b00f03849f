"""dbt's tests of adapters. What is changed or left out says why."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.basic import files
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import BaseIncremental
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.util import run_dbt


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory):
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="class")
def dbt_profile_target(warehouse):
    settings = {"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}
    return {"type": "sqlstream", "warehouse": str(warehouse), "spark": "local[1]", "threads": 1, "settings": settings}


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


class TestSingularTests(BaseSingularTests):
    pass


class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


class TestEmpty(BaseEmpty):
    pass


class TestEphemeral(BaseEphemeral):
    pass


class TestIncremental(BaseIncremental):
    pass


class TestGenericTests(BaseGenericTests):
    pass


class TestAdapterMethod(BaseAdapterMethod):
    pass


class TestValidateConnection(BaseValidateConnection):
    pass


class TestTableMaterialization(BaseTableMaterialization):
    pass


class TestSnapshotsAreRefusedByName:
    """In place of dbt's tests of snapshots: rows of files are not updated."""

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"base.csv": files.seeds_base_csv}

    @pytest.fixture(scope="class")
    def snapshots(self):
        return {"cc_all_snapshot.sql": files.cc_all_snapshot_sql}

    def test_snapshot(self, project):
        run_dbt(["seed"])
        (result,) = run_dbt(["snapshot"], expect_pass=False)
        assert 'snapshot "cc_all_snapshot" is not executed' in result.message
