#!/usr/bin/env bash
# Build an image with versions from deploy/versions.json:
#   deploy/images/build.sh tierscope [tag]
#   deploy/images/build.sh probe ENGINE_IMAGE@sha256:… [tag]
# CONTAINER_ENGINE names the builder (docker; podman works too). An image whose digest is not in versions.json is refused, so
# that no build depends on what a tag means today; UNPINNED=1 takes it all the same.
set -euo pipefail
cd "$(dirname "$0")/../.."
engine=${CONTAINER_ENGINE:-docker}

pinned() { # the name of an entry of versions.json, with its digest
  python3 - "$1" "${UNPINNED:-}" <<'READ'
import json, sys

entry = json.load(open("deploy/versions.json"))[sys.argv[1]]
if entry["digest"]:
    print(f"{entry['name']}@{entry['digest']}")
elif sys.argv[2]:
    print(f"{entry['name']}:{entry['tag']}")
else:
    sys.exit(f"{sys.argv[1]} has no digest in deploy/versions.json: resolve {entry['name']}:{entry['tag']} and write it there, "
             "or set UNPINNED=1")
READ
}

python_image=$(pinned python_image)
# The list of what is in the image travels with it, as the builder's attestation; `podman build` has --sbom of its own.
attest=()
[ "$engine" = docker ] && attest=(--sbom=true --provenance=true)
case ${1:?tierscope or probe} in
  tierscope)
    "$engine" build "${attest[@]}" -f deploy/images/tierscope.Containerfile --build-arg "PYTHON_IMAGE=$python_image" \
      -t "${2:-tierscope:$(python3 -c 'import json; print(json.load(open("deploy/versions.json"))["tierscope"])')}" . ;;
  probe)
    engine_image=${2:?the image your endpoint runs now, with its digest}
    [[ $engine_image == *@sha256:* || -n ${UNPINNED:-} ]] || { echo "$engine_image has no digest; give one, or set UNPINNED=1" >&2; exit 1; }
    "$engine" build "${attest[@]}" -f deploy/images/probe.Containerfile --build-arg "PYTHON_IMAGE=$python_image" \
      --build-arg "ENGINE_IMAGE=$engine_image" --build-arg "ENGINE_USER=${ENGINE_USER:-root}" -t "${3:-engine-with-probe:local}" . ;;
  *) echo "there is no image $1" >&2; exit 2 ;;
esac
