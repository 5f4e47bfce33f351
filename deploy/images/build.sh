#!/usr/bin/env bash
# Build an image with versions from deploy/versions.json:
#   deploy/images/build.sh tierscope [tag]
#   deploy/images/build.sh probe ENGINE_IMAGE@sha256:… [tag]
#   deploy/images/build.sh operator-example [tag]
# CONTAINER_ENGINE names the builder: docker, podman or buildah. PYTHON_IMAGE names another base than that of versions.json: a mirror
# of it, or one of yours whose `python` is 3.11 or newer. A base without a digest is refused, so that no build depends on what
# a tag means today; UNPINNED=1 takes it all the same.
# PIP_CONF is a pip.conf of yours, for an index other than PyPI; CERTIFICATES a file of authorities to trust, which that pip.conf names as
# `cert = /run/secrets/certificates`. Both are there while pip runs, as the builder's secrets, and in no image.
set -euo pipefail
cd "$(dirname "$0")/../.."
engine=${CONTAINER_ENGINE:-docker}

pinned() { # an image's name, which has to have a digest
  [[ $1 == *@sha256:* || -n ${UNPINNED:-} ]] || { echo "$1 has no digest; give one, or set UNPINNED=1" >&2; exit 1; }
  echo "$1"
}

listed() { # the name of an entry of versions.json, with its digest
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

python_image=$(if [ -n "${PYTHON_IMAGE:-}" ]; then pinned "$PYTHON_IMAGE"; else listed python_image; fi)
options=(--build-arg "PYTHON_IMAGE=$python_image")
# The list of what is in the image travels with it, as the builder's attestation; `podman build` has --sbom of its own.
[ "$engine" != docker ] || options+=(--sbom=true --provenance=true)
[ -z "${PIP_CONF:-}" ] || options+=(--secret "id=pip,src=$PIP_CONF")
[ -z "${CERTIFICATES:-}" ] || options+=(--secret "id=certificates,src=$CERTIFICATES")
case ${1:?tierscope, probe or operator-example} in
  tierscope)
    "$engine" build "${options[@]}" -f deploy/images/tierscope.Containerfile \
      -t "${2:-tierscope:$(python3 -c 'import json; print(json.load(open("deploy/versions.json"))["tierscope"])')}" . ;;
  probe)
    engine_image=$(pinned "${2:?the image your endpoint runs now, with its digest}")
    "$engine" build "${options[@]}" -f deploy/images/probe.Containerfile --build-arg "ENGINE_IMAGE=$engine_image" \
      --build-arg "ENGINE_USER=${ENGINE_USER:-root}" -t "${3:-engine-with-probe:local}" . ;;
  operator-example)
    "$engine" build "${options[@]}" -f deploy/operator-example/Containerfile -t "${2:-tierscope-operator-example:local}" deploy/operator-example ;;
  *) echo "there is no image $1" >&2; exit 2 ;;
esac
