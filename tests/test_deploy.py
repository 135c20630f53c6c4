"""The files for clusters agree with the lock and with each other."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def manifest():
    documents = yaml.safe_load_all((ROOT / "deploy" / "kuberay.yaml").read_text())
    return {document["kind"]: document for document in documents}


def pods(manifest):
    spec = manifest["RayCluster"]["spec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def test_the_cluster_runs_the_ray_of_the_lock(manifest):
    locked = re.search(r"^ray==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[1]
    assert manifest["RayCluster"]["spec"]["rayVersion"] == locked


def test_all_nodes_share_the_storage_of_run_folders(manifest):
    claim = manifest["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for group in pods(manifest):
        spec = group["template"]["spec"]
        (volume,) = spec["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (container,) = spec["containers"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/runs"}]
        assert container["readinessProbe"]["exec"]["command"][-1].startswith("ray health-check")


def test_a_worker_promises_the_cores_and_the_memory_that_it_has(manifest):
    worker = manifest["RayCluster"]["spec"]["workerGroupSpecs"][0]
    (container,) = worker["template"]["spec"]["containers"]
    resources = container["resources"]
    assert resources["requests"] == resources["limits"]
    assert worker["rayStartParams"]["num-cpus"] == resources["limits"]["cpu"]
    memory = int(resources["limits"]["memory"].removesuffix("Gi"))
    # Ray offers 70% of the memory; a trial reserves 3 GB.
    assert 0.7 * memory >= 3 * int(resources["limits"]["cpu"])
