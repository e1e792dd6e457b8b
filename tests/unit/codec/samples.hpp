#pragma once

#include <string>

namespace ate::test {

/// The files of examples.md, as one multi-document file each.
inline const std::string kNodeYaml = R"(# /etc/ate/noded.yaml
apiVersion: ate.dev/v1alpha1
kind: NodeConfig
spec:
  stateDir: /var/lib/ate
  runDir: /run/ate
  listen: {socket: /run/ate/noded.sock, mode: "0660", group: ate}
  enforcement: required            # required | off
  cgroupRoot: /sys/fs/cgroup/ate.slice   # an existing v2 directory
  uidRange: {start: 2000000000, count: 65536}   # one uid per micro-VM
  sizing: {requireActorLimits: false}
  hostReserve: {memory: 1Gi}       # never given to pools
  overhead:
    microvm: {fixed: 12Mi, perVcpu: 1Mi, percent: 1.0}
    gvisor: {fixed: 72Mi, perVcpu: 0, percent: 0}
  operationWait: 60s               # how long a verb waits before 202
  logLevel: info                   # error | warning | info | debug
)";

inline const std::string kGvisorYaml = R"(# /etc/ate/gvisor.yaml - several documents in one file
apiVersion: ate.dev/v1alpha1
kind: SandboxConfig
metadata: {name: gvisor}
spec:
  sandboxClass: gvisor             # gvisor | microvm
  default: true                    # the class's default (one per class)
  assets:
    runsc: {path: /usr/local/bin/runsc}          # sha256 optional
  gvisor: {platform: systrap}
---
apiVersion: ate.dev/v1alpha1
kind: WorkerPool
metadata: {name: small, labels: {tier: small}}
spec:
  sandboxClass: gvisor
  sandboxConfig: gvisor            # optional: the class's default
  replicas: 4
  resources: {limits: {cpu: "1", memory: 1Gi, pids: 4096}}
---
apiVersion: ate.dev/v1alpha1
kind: ActorTemplate
metadata: {name: counter, atespace: default}
spec:
  sandboxClass: gvisor
  workerSelector: {tier: small}    # labels of pools; empty = any pool of the class
  # resources: {limits: {cpu: "1", memory: 512Mi}}   # declared size; absent = Option B
  containers:
  - name: app
    image: oci-archive:/srv/images/counter.tar
    command: [/usr/bin/python3]    # replaces ENTRYPOINT
    args: [/app/counter.py]        # replaces CMD
    env:
    - {name: PORT, value: "8080"}
    - {name: TOKEN, valueFrom: {file: /etc/ate/secrets/token}}
    workingDir: /app
    ports: [{name: http, containerPort: 8080}]
    readyz: {http: {port: 8080, path: /readyz}, periodMs: 50, timeout: 30s}   # or tcp: {port}
    # resources: {limits: {cpu: 500m, memory: 128Mi}}  # per container: microvm only
    volumeMounts: [{name: data, mountPath: /data}, {name: info, mountPath: /run/ate, readOnly: true}]
  volumes:
  - {name: data, durableDir: {size: 1Gi}}
  - {name: info, systemInfo: {}}
  diskQuota: 2Gi                   # writable root file system
  snapshots: {onPause: FULL, onSuspend: FULL}
  idle: {after: 10m, action: suspend}
  ttl: 720h
  restartPolicy: Never             # Never | OnFailure | Always
  onHostReboot: none               # none | revert | boot
  egress: none                     # none | nat
  terminationGrace: 10s
)";

inline const std::string kKataYaml = R"(apiVersion: ate.dev/v1alpha1
kind: SandboxConfig
metadata: {name: kata}
spec:
  sandboxClass: microvm
  default: true
  assets:
    cloud-hypervisor: {path: /opt/kata/bin/cloud-hypervisor, sha256: "sha256:00"}
    kernel: {path: /opt/kata/share/kata-containers/vmlinux.container}
    image: {path: /opt/kata/share/kata-containers/kata-containers.img}   # or initramfs
  microvm: {kernelParams: "", elastic: true}
)";

}  // namespace ate::test
