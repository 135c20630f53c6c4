"""Images, compositions and manifests agree with programs, with the lock and with each other."""

import re
import tomllib

import pytest
import yaml
from commands import parse, wrong
from documents import ROOT

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def manifest():
    documents = yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text())
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


def test_nodes_run_as_the_user_of_the_image(manifest):
    user = re.search(r"useradd .*--uid (\d+)", (DEPLOY / "Dockerfile").read_text())[1]
    for group in pods(manifest):
        context = group["template"]["spec"]["securityContext"]
        assert str(context["runAsUser"]) == str(context["fsGroup"]) == user


# Images, and what deploys single runs and servers.


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def kubernetes():
    files = [DEPLOY / "serving.yaml", DEPLOY / "train.yaml"]
    documents = [one for file in files for one in yaml.safe_load_all(file.read_text())]
    return {document["kind"]: document for document in documents}


def containers(kubernetes):
    for kind in ("Deployment", "Job"):
        spec = kubernetes[kind]["spec"]["template"]["spec"]
        yield from [*spec.get("initContainers", []), *spec["containers"]]


def test_every_file_of_deploy_is_yaml_or_known():
    others = {"Dockerfile", "monitoring.config"}
    for file in DEPLOY.iterdir():
        if file.name not in others:
            assert list(yaml.safe_load_all(file.read_text())), file.name


def test_deployed_commands_have_programs_and_flags_that_exist(compose, kubernetes):
    services = [one["command"] for one in compose["services"].values() if "build" in one]
    jobs = [one["command"] for one in containers(kubernetes) if "command" in one]
    assert len(services) == 3
    assert len(jobs) == 2
    for words in [*services, *jobs]:
        (command,) = parse("deploy", " ".join(words))
        assert wrong(command) == []


def test_the_image_copies_what_exists_and_is_built_to_a_target_that_exists(compose):
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    copied = re.findall(r"^COPY --chown=\d+ (.*) \S+$", dockerfile, re.M)
    assert copied
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", dockerfile, re.M))
    extras = re.search(r'--editable "\.\[(.*)\]"', dockerfile)[1].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    for service in compose["services"].values():
        if "build" in service:
            assert service["build"]["target"] in targets
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_no_target_of_the_image_ends_as_root():
    stages = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1:]
    assert len(stages) == 3
    users = [re.findall(r"^USER (\d+)$", stage, re.M) for stage in stages]
    assert users == [["1000"], [], ["0", "1000"]]  # base, train, test


def test_mounted_files_exist_and_named_volumes_are_declared(compose):
    for service in compose["services"].values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).is_file(), source
            else:
                assert source in compose["volumes"]


def test_what_is_exported_is_what_is_served_and_played(compose):
    services = compose["services"]
    flags = {
        name: dict(word[2:].split("=") for word in services[name]["command"] if "=" in word)
        for name in ("train", "export", "client")
    }
    assert flags["train"]["run_dir"] == flags["export"]["run_dir"]
    served = services["serving"]["environment"]
    place = f"{served['MODEL_BASE_PATH']}/{served['MODEL_NAME']}"
    assert flags["export"]["output_dir"] == place
    assert flags["client"]["model"] == served["MODEL_NAME"]
    assert flags["client"]["env"] == flags["train"]["env"]
    assert flags["client"]["server"] == "serving:8500"
    assert f"/v1/models/{served['MODEL_NAME']} " in services["serving"]["healthcheck"]["test"][-1]


def test_servers_are_of_the_version_that_writes_exports(compose, kubernetes):
    lock = (ROOT / "requirements.txt").read_text()
    locked = re.search(r"^tensorflow-serving-api==(\S+)", lock, re.MULTILINE)[1]
    (server,) = (one for one in containers(kubernetes) if one["name"] == "serving")
    assert compose["services"]["serving"]["image"] == f"tensorflow/serving:{locked}"
    assert server["image"] == f"tensorflow/serving:{locked}"
    assert f"tensorflow/serving:{locked}" in (ROOT / "docs" / "serving.md").read_text()


def test_metrics_are_scraped_where_the_server_shows_them(compose, kubernetes):
    config = (DEPLOY / "monitoring.config").read_text()
    assert kubernetes["ConfigMap"]["data"]["monitoring.config"] == config
    path = re.search(r'path: "(.*)"', config)[1]
    (scrape,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["metrics_path"] == path
    assert scrape["static_configs"][0]["targets"] == ["serving:8501"]
    annotations = kubernetes["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == path
    mounted = [one.split(":")[1] for one in compose["services"]["serving"]["volumes"]]
    flag = "--monitoring_config_file="
    (read,) = (w for w in compose["services"]["serving"]["command"] if w.startswith(flag))
    assert read.removeprefix(flag) in mounted


def test_the_server_on_kubernetes_reads_what_the_job_exports(kubernetes):
    deployment, job = kubernetes["Deployment"], kubernetes["Job"]
    train, export, server = (
        next(one for one in containers(kubernetes) if one["name"] == name)
        for name in ("train", "export", "serving")
    )
    environment = {one["name"]: one["value"] for one in server["env"]}
    name, base = environment["MODEL_NAME"], environment["MODEL_BASE_PATH"]
    assert f"--output_dir={base}/{name}" in export["command"]
    assert {w for w in train["command"] if w.startswith("--run_dir")} < {*export["command"]}
    claim = kubernetes["PersistentVolumeClaim"]["metadata"]["name"]
    for pod in (deployment, job):
        spec = pod["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim
        volumes = {one["name"] for one in spec["volumes"]}
        mounts = {m["name"] for c in spec["containers"] for m in c["volumeMounts"]}
        assert volumes == mounts
    for probe in ("startupProbe", "readinessProbe"):
        assert server[probe]["httpGet"]["path"] == f"/v1/models/{name}"
    files = kubernetes["ConfigMap"]["data"]
    assert {w.split("/config/")[1] for w in server["args"] if "/config/" in w} == set(files)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    service = kubernetes["Service"]["spec"]
    assert service["selector"] == labels
    ports = {one["name"]: one["containerPort"] for one in server["ports"]}
    assert {one["targetPort"]: one["port"] for one in service["ports"]} == ports


def test_the_context_of_the_image_leaves_out_what_git_ignores():
    ignored = (ROOT / ".gitignore").read_text().split()
    left_out = (ROOT / ".dockerignore").read_text()
    for name in ignored:
        pattern = name.strip("/")
        covered = pattern.startswith(".venv") and ".venv*" in left_out
        assert covered or re.search(rf"^(\*\*/)?{re.escape(pattern)}$", left_out, re.M), name
