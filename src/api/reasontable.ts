import { diskReasons } from './diskreasons.ts';
import { nothing, type ReasonRow, rows, waits } from './reasonrows.ts';

const ownMemory = 'Its own is used up, and its disks are as after a power cut';

/** Every condition reason that svc3 writes; docs/conditions.md is made from it. */
export const reasonTable: readonly ReasonRow[] = [
  ...rows('VM', 'Ready', 'True', {
    Running: [
      'The VM runs and its guest answers what spec.readiness asks, as spec.powerState says.',
      nothing,
    ],
    GuestNotAnswering: [
      'The VM runs; neither SSH nor the guest agent has answered in the time for it (chart value readiness.timeoutSeconds), so nobody can say more.',
      'Nothing, where the guest has neither; else look at its console. spec.readiness says what to ask instead.',
    ],
    Stopped: ['The VM is stopped, as spec.powerState says.', nothing],
    Suspended: ['The VM is suspended, as spec.powerState says.', nothing],
  }),
  ...rows('VM', 'Ready', 'False', {
    Pending: [
      'The VM has no pod yet. As soon as it is known why, Ready has the reason of the condition that says it (Stalled, Scheduled or Prepared).',
      waits,
    ],
    Starting: ['The VM is being started.', waits],
    Claiming: [
      'The VM gets a guest of its pool that waits; where none does, it is being deployed from the template of the pool.',
      'Nothing, for a moment. Where it stays so, the operator does not reach the pod: let a NetworkPolicy of the namespace allow port 8443. After two minutes the VM gets a pod of its own where it is certain that the guest was told nothing ([pools](pools.md#a-ci-system)).',
    ],
    GuestNotReady: [
      'The VM runs; its guest does not answer yet what spec.readiness asks.',
      'Nothing, while it boots; else look at its console and at what spec.readiness names.',
    ],
    Stopping: ['The guest is shutting down.', waits],
    Suspending: ['The VM is being suspended.', waits],
    Resuming: ['The VM is being resumed.', waits],
    Restarting: ['The guest is being shut down, and is started again.', waits],
    Reverting: [
      'Changes to the disk are discarded and the VM boots fresh from its image; before that the images that are to have the disk as it is are saved, which the message names.',
      'Nothing; it goes on by itself. Where an image that it waits for cannot be saved, look at that, or delete it.',
    ],
    GuestStopped: [
      'The guest has shut itself down although spec.powerState is Running; nothing starts it again but a new pod of the VM.',
      'Start it (`svc3 vm start`, or a new spec.startRequest), or leave it off (`svc3 vm stop`, or spec.powerState Stopped).',
    ],
    UserDataMissing: ['As with Booted.', 'As with Booted.'],
    DiskFull: ['As with Booted.', 'As with Booted.'],
    Crashed: [
      'QEMU died, the guest panicked or was lost with its container; the message holds the last words. It is started again after 1, 2, 4, 8 and 16 s, five times in all; ten minutes without a crash, and the count begins anew. Where the container of the pod ends under the guest, as one that is killed for memory (`OOMKilled`), that is one more of these crashes; the kubelet starts it again with a backoff of its own (`CrashLoopBackOff`).',
      'Nothing, until Stalled is True; `kubectl logs` of the pod tells more, of a container that has ended `kubectl logs --previous` and its Last State. See the [runbook](runbooks/Svc3VMCrashLoop.md).',
    ],
    Terminating: [
      'The VM is being deleted and waits until its disk is saved; the message names the Images and says how long at most. Or its pod, its claim or itself may not be deleted (events PodNotDeleted, DiskNotDeleted); the message quotes who refuses it.',
      'While the disk is saved nothing; to delete it without, delete the Image or annotate the VM svc3.dev/delete-without-saving=true. Else what the message says; it is tried again.',
    ],
  }),
  ...rows('VM', 'Ready', 'Unknown', {
    NodeLost: [
      'The node does not answer, so the state of the VM is not known.',
      'Bring the node back, or delete its pod for good (taint node.kubernetes.io/out-of-service).',
    ],
    RunnerUnreachable: [
      'The pod runs but its runner does not answer. Or it has lost its volume and shows another certificate than before, which the message says: nothing is asked of it any more.',
      'Look at network policies and at the logs of the pod. With another certificate delete the pod; the VM gets another one, and an Ephemeral disk is new.',
    ],
  }),
  ...rows('VM', 'Scheduled', 'True', {
    Scheduled: ['A node has been chosen.', nothing],
  }),
  ...rows('VM', 'Scheduled', 'False', {
    AwaitingScheduler: [
      'The pod is left to kube-scheduler (chart value placement.whenFull: Pod), which has not come to a verdict: it has not looked at the pod yet, has failed and tries again, makes room on a node, or waits for whoever gates the pod; the message quotes it.',
      'Nothing; where that lasts, look at the pod and whether kube-scheduler runs.',
    ],
    Unschedulable: [
      'No node fits, and the message counts the reasons over all nodes; or kube-scheduler does not bind the pod, to the node that was chosen or to any, and the message quotes it.',
      'Free or add what is missing; `svc3 vm explain NAME` gives the verdict for each node.',
    ],
    ConfigNotFound: [
      'spec.config names a VMConfig that does not exist.',
      'Create the VMConfig, or deploy with another.',
    ],
    PoolNotFound: [
      'spec.pool names a VMPool that does not exist.',
      'Create the VMPool, or deploy with another.',
    ],
    ImageNotFound: [
      'The image names an Image that does not exist in this namespace, or the registry does not know it.',
      'Create the Image, or deploy with another.',
    ],
    ImageNotReady: ['The Image is still being made, or waits for its upload.', waits],
    ImageFailed: [
      'The Image or ISO cannot be made until somebody acts; the message says why.',
      'Do what the Image or ISO waits for, or deploy with another.',
    ],
    ImageTerminating: [
      'The Image or ISO is being deleted: no VM is placed from it any more.',
      'Deploy with another, or let go of what still uses it, which its condition Ready names; an Image of the same name that is made afterwards is used.',
    ],
    AskingRegistry: ['The registry is asked what the image is, and has not answered yet.', waits],
    ImagePullDenied: [
      'The registry refused to give the image.',
      'Add a registry credential for that registry to this namespace (`svc3 regcred add`).',
    ],
    ClaimTerminating: [
      'A PersistentVolumeClaim of the name that the VM would make is being deleted; the VM gets a disk of its own when it is gone.',
      waits,
    ],
    PodConflict: ['A pod of the same name exists that does not belong to this VM.', 'Delete that pod.'],
    PodRefused: [
      'kube-apiserver refused the pod (Pod Security, quota, LimitRange or a webhook); the message quotes it.',
      'Change what the message names; it is tried again.',
    ],
    RejectedByNode: [
      'The kubelet rejected the pod; the message quotes it.',
      'Nothing; another place is looked for.',
    ],
    PodNotPrepared: [
      'The node had not prepared volumes and network of the pod five minutes after it had got it, and another node takes the VM.',
      'Nothing; the VM gets a pod on that one. Look at the Events of the pod (`FailedCreatePodSandBox`, `FailedMount`), and cordon a node that prepares none.',
    ],
  }),
  ...rows('VM', 'Prepared', 'True', {
    Prepared: ['The image has been pulled and the disk made.', nothing],
  }),
  ...rows('VM', 'Prepared', 'False', {
    PullingImage: [
      'The node pulls the image. Where the message says that it may not have prepared volumes and network yet, its kubelet is older than 1.36, which does not tell one from the other.',
      'Nothing; it goes on by itself. Where that lasts, look at the Events of the pod (`Pulling`, `FailedAttachVolume`, `FailedMount`, `FailedCreatePodSandBox`).',
    ],
    PodNotPrepared: [
      'The node has had the pod for half a minute or more and has not prepared its volumes and network: nothing is pulled before that.',
      'Look at the Events of the pod (`FailedAttachVolume`, `FailedMount`, `FailedCreatePodSandBox`) and mend what they name; it goes on by itself. A VM without claims is tried on another node that takes it after five minutes, each node once; a VM with a claim stays, as it would wait for its volume elsewhere too.',
    ],
    ImagePullFailed: [
      'The node could not pull the image; the message quotes the kubelet.',
      'Check the reference and the registry credential.',
    ],
    DiskFileMissing: [
      'The image, the ISO or a disk cannot be used; the message says why.',
      'Correct what the message names: an image has its disk below /disk and containerd is 2.1 or newer, a data disk has its file, an ISO that has none is taken out (`svc3 vm eject`), a Persistent disk stays with the image that it was made on: deploy a VM with its claim and that image, by its digest (`svc3 vm revert` discards the disk and begins anew).',
    ],
    ArchitectureMismatch: [
      'The image is of another architecture than the VM.',
      'Deploy it again with an image of the right architecture.',
    ],
    VolumePending: [
      'The PersistentVolumeClaim of the disk is not bound yet.',
      'Check the StorageClass and its provisioner.',
    ],
    AwaitingScheduler: ['As with Scheduled.', 'As with Scheduled.'],
    Unschedulable: ['As with Scheduled.', 'As with Scheduled.'],
  }),
  ...rows('VM', 'Booted', 'True', {
    Booted: ['QEMU runs the guest.', nothing],
  }),
  ...rows('VM', 'Booted', 'False', {
    Booting: ['QEMU is being started.', waits],
    NotRunning: ['The VM is stopped.', 'Start it when it is needed.'],
    AcceleratorFailed: [
      'The guest could not be executed with hardware virtualisation.',
      "Label the node svc3.dev/accelerator=tcg and then delete the VM's pod (an Ephemeral disk is lost with it), or repair its virtualisation. Where kube-scheduler found the node (chart value placement.whenFull: Pod), and its /dev/kvm has a group that no node had before, it is enough to delete the pod.",
    ],
    GPUUnavailable: [
      "A card of the node's bundle is busy or does not reset; the Node has condition svc3.dev/GPUUnavailable.",
      'Free the card, or reboot the node where it does not reset; the VM is started again by itself.',
    ],
    UserDataMissing: [
      'The Secret of spec.userData does not exist in the namespace of the VM, or has no key userData.',
      'Create it; the VM is started by itself when the kubelet has seen it, in about a minute.',
    ],
    DiskFull: [
      "The VM's storage is full, has a quota that is used up, or takes no writes: its claim, or the ephemeral storage of its node. QEMU has paused the guest.",
      'Make room on the node, or on what the claim lies on, or raise the quota. The guest goes on by itself; where it does not although there is room (a network file system that has refused to write once), `svc3 vm restart`: a guest that stays paused cannot shut down, and is cut off at the end of its grace period.',
    ],
    QEMUFailed: ['QEMU ended; the message holds its last words.', 'Read `kubectl logs` of the pod.'],
  }),
  ...rows('VM', 'WarmStart', 'True', {
    StartedFromMemory: [
      'The guest did not boot: it goes on from the memory of its image, or from its own on its claim.',
      nothing,
    ],
    IdentityShared: [
      'The guest goes on from the memory of its image and could not be made one of its own: it has no agent, one that runs no programs, or no hook `/usr/lib/svc3/woken` that does its work; the message says which, and what it may have in common with other guests.',
      'Install qemu-guest-agent in the guest, allow it `guest-exec`, [give it the hook](images.md#a-hook-for-the-identity-of-copies), and save it again.',
    ],
  }),
  ...rows('VM', 'WarmStart', 'False', {
    MemoryUsed: [
      'The guest booted from its disk: it has run on it before, and the memory belongs to the disk as the image has it.',
      'Nothing; `svc3 vm revert` starts from the memory again.',
    ],
    MemoryMissing: ['The guest booted: the image has no memory that can be read.', 'Save the image again.'],
    AcceleratorDiffers: [
      'The guest booted: its memory, of its image or on its own claim, was saved under another accelerator.',
      `Of an image: make room on a node that \`svc3 vm explain NAME\` calls warm, or save again on one like this. ${ownMemory}; the next time see that a node like \`status.memoryHost\` has room before the VM goes on.`,
    ],
    CpuDiffers: [
      'The guest booted: its memory, of its image or on its own claim, was saved on another CPU.',
      'As with AcceleratorDiffers.',
    ],
    QemuDiffers: [
      'The guest booted: its memory, of its image or on its own claim, was saved by another QEMU.',
      `Of an image: save it again. ${ownMemory}; the next time let the VM go on before svc3 is upgraded.`,
    ],
    MachineDiffers: [
      'The guest booted: the VM has other hardware than that of the save, or its claim holds the memory of the VM that had the disk before; the message names what differs.',
      `Of an image: deploy with the same CPUs, memory, disk size and devices. ${ownMemory}.`,
    ],
    MemoryNotLoaded: [
      'The guest booted: QEMU did not take the memory, of its image or on its own claim; the message quotes it.',
      `Of an image: save it again. ${ownMemory}.`,
    ],
    DiskChanged: [
      'The guest booted, as after a power cut: a disk has been written since its memory was saved on its claim; the message names it.',
      'Look at the file systems of the guest, and for who else writes to its claims.',
    ],
    NotSuspended: [
      'The guest booted: its memory could not be written to its claim when its pod ended (spec.onEviction: Suspend), so it was shut down; the message says why.',
      'Nothing; the next time give the claim the room, or the node the time, that the message names.',
    ],
    HookFailed: [
      'The guest booted and waited in a pool; when a VM got it its hook `/usr/lib/svc3/woken` has failed, or there is none and the VM has metadata or keys of its own, so that it may not know them. The message says how.',
      'Run the hook in a guest of the image ([pools](pools.md#what-the-guest-is-told)), mend or add it, and deploy again; or say in the template what guests have to know. When the guest boots again cloud-init tells it.',
    ],
  }),
  ...rows('VM', 'RestartRequired', 'True', {
    SpecChanged: [
      'Fields of spec differ from the settings in force; the message names them. They apply when the guest is started next (docs/vmchanges.md).',
      'Restart it when it suits (`svc3 vm restart`, or a new spec.restartRequest).',
    ],
    ResizeRefused: [
      'As SpecChanged; cpu or memory of a VM with an Ephemeral disk has changed, or the screen of any is to be larger, and its pod cannot be resized on its node; or a data disk is to be larger, and its claim must not grow. The message gives the reason; a restart waits for the claim.',
      'Free room on the node, or let the claim grow (quota, StorageClass), or ask for less, of a data disk as the message says; it is tried again by itself.',
    ],
    DeployAgain: [
      'Fields of spec changed while the VM was being placed, and its Ephemeral disk is in its pod; the message names them.',
      'Delete the VM and deploy it again, or give the fields back what status.effective has.',
    ],
  }),
  ...rows('VM', 'Stalled', 'True', {
    GuestStopped: ['As with Ready.', 'As with Ready.'],
    ImagePullDenied: ['As with Scheduled.', 'As with Scheduled.'],
    PodConflict: ['As with Scheduled.', 'As with Scheduled.'],
    ConfigNotFound: ['As with Scheduled, of a VM that is at least a minute old.', 'As with Scheduled.'],
    PoolNotFound: ['As with Scheduled, of a VM that is at least a minute old.', 'As with Scheduled.'],
    UserDataMissing: ['As with Booted, of a VM that is at least a minute old.', 'As with Booted.'],
    ImageNotFound: ['As with Scheduled, of a VM that is at least a minute old.', 'As with Scheduled.'],
    ImageFailed: ['As with Scheduled, of a VM that is at least a minute old.', 'As with Scheduled.'],
    ImageTerminating: ['As with Scheduled, of a VM that is at least a minute old.', 'As with Scheduled.'],
    GPUPassthroughDisabled: [
      'The VM asks for GPU passthrough and the cluster has it turned off.',
      'Turn it on in the chart (gpuPassthrough.enabled), or deploy without it.',
    ],
    InvalidSpec: [
      'The spec cannot be carried out; the message names the field.',
      'Change that field, of the VM, its VMConfig or its VMPool; where kube-apiserver refuses it, delete the VM and deploy it again.',
    ],
    ClaimConflict: [
      'The PersistentVolumeClaim that the VM would make, or names, is not its own: it is neither mounted nor deleted. The message says whose it is.',
      'Delete that claim, give the VM another name, or go on with the disk of a deleted VM by `disk.claimName` ([Disks](nodes.md#disks-of-deleted-vms)).',
    ],
    ClaimNotFound: [
      'The PersistentVolumeClaim that `disk.claimName`, or `claimName` of a data disk, names does not exist.',
      'Make that claim, or delete the VM and deploy it with another one.',
    ],
    PowerStateUnsupported: [
      'The requested power state does not exist for this VM; the message says why.',
      'Choose another power state.',
    ],
    DiskFileMissing: ['As with Prepared.', 'As with Prepared.'],
    ArchitectureMismatch: [
      'The image is of another architecture than the VM, or the runner image cannot run guests of it.',
      'Deploy it again with an image of another architecture.',
    ],
    RestartLimitExceeded: [
      'QEMU died, the guest panicked or was lost with its container for the sixth time without ten quiet minutes between; the message holds the last words. It is not started again by itself. The disk is as it was left.',
      'Start it (`svc3 vm start` or `restart`, or a new spec.startRequest), which allows as many restarts again; or save its disk, or revert it.',
    ],
    GPUUnavailable: ['The pod was given no GPU although the VM is to have one.', 'Delete the pod of the VM.'],
    QEMUFailed: [
      'QEMU cannot be started in this pod; the message says why.',
      'Change what the message names.',
    ],
  }),
  ...rows('VM', 'PortsMapped', 'False', {
    PortTaken: [
      "A port of spec.ports is in use on every node that fits; the VM runs without it, and the guest's port is open on the pod's IP only, unless the pod uses that number itself. The condition is absent where all are mapped.",
      'Free the port, or name another one: the next pod of the VM has it. With an Ephemeral disk kube-apiserver refuses another one; deploy the VM again with it.',
    ],
    PortNotAllowed: [
      "A port of spec.ports is not one that this installation allows; the VM runs without it, and from its next pod on the guest's port is open on the pod's IP only, unless the pod uses that number itself.",
      'Name a port in the range of the chart value hostPorts.allowed; with an Ephemeral disk kube-apiserver refuses that: deploy the VM again with it.',
    ],
  }),
  ...rows('VMConfig', 'Ready', 'True', {
    Resolved: [
      'The Image and the ISO that the VMConfig names exist and are Ready, as far as it names any; the message says which.',
      nothing,
    ],
    RegistryNotAsked: [
      'The image or the ISO is a reference of a registry, which is asked only when a VM is deployed: whether it is there is not known. What else the VMConfig names is Ready.',
      nothing,
    ],
  }),
  ...rows('VMConfig', 'Ready', 'False', {
    ImageNotFound: [
      'spec.image names an Image that does not exist in this namespace.',
      'Create the Image, or name another.',
    ],
    ImageNotReady: [
      'The Image of spec.image is still being made.',
      'Nothing, unless Stalled is True: then the Image says what it waits for.',
    ],
    ImageTerminating: [
      'The Image of spec.image is being deleted: no VM is placed from it any more.',
      'Name another; an Image of the same name that is made afterwards is used.',
    ],
    ISONotFound: [
      'spec.iso names an ISO that does not exist in this namespace.',
      'Create the ISO, or name another.',
    ],
    ISONotReady: [
      'The ISO of spec.iso is still being made.',
      'Nothing, unless Stalled is True: then the ISO says what it waits for.',
    ],
    ISOTerminating: [
      'The ISO of spec.iso is being deleted: no VM is placed with it any more.',
      'Name another; an ISO of the same name that is made afterwards is used.',
    ],
  }),
  ...rows('VMConfig', 'Stalled', 'True', {
    ImageNotFound: ['As with Ready, for more than a minute.', 'As with Ready.'],
    ImageNotReady: ['As with Ready, and the Image is Stalled itself.', 'Do what the Image waits for.'],
    ImageTerminating: ['As with Ready, for more than a minute.', 'As with Ready.'],
    ISONotFound: ['As with Ready, for more than a minute.', 'As with Ready.'],
    ISONotReady: ['As with Ready, and the ISO is Stalled itself.', 'Do what the ISO waits for.'],
    ISOTerminating: ['As with Ready, for more than a minute.', 'As with Ready.'],
  }),
  ...rows('RegistryCredential', 'Ready', 'True', {
    Published: ["The credential stands in the namespace's pull Secret.", nothing],
    PublishedSecure: [
      'The credential stands in the pull Secret, but the nodes do not trust this insecure registry.',
      'Allow the host in the chart (insecureRegistries), or give the registry a certificate that nodes trust.',
    ],
  }),
  ...rows('RegistryCredential', 'Ready', 'False', {
    SecretNotFound: [
      'spec.secretRef names a Secret that does not exist in svc3-credentials.',
      'Create the Secret.',
    ],
    SecretInvalid: [
      'The Secret is not of type kubernetes.io/basic-auth or lacks user name or password.',
      'Correct the Secret.',
    ],
    SecretConflict: [
      'A Secret svc3-registry-credentials that svc3 did not make is in the way.',
      'Delete or rename that Secret.',
    ],
    SecretRefused: [
      'kube-apiserver refused the pull Secret; the message quotes it.',
      'Change what the message names; it is tried again.',
    ],
  }),
  ...rows('RegistryCredential', 'Stalled', 'True', {
    SecretNotFound: ['As with Ready, for more than a minute.', 'As with Ready.'],
    SecretInvalid: ['As with Ready.', 'As with Ready.'],
    SecretConflict: ['As with Ready.', 'As with Ready.'],
  }),
  ...rows('VMPool', 'Ready', 'True', {
    Filled: ['As many guests wait as spec.minIdle says.', nothing],
    AtMaxSize: [
      'Fewer guests wait than spec.minIdle says: with the VMs of the pool they are as many as spec.maxSize allows. The next one is booted when a VM is deleted.',
      'Nothing; where VMs are to find guests that wait, delete VMs or raise spec.maxSize.',
    ],
  }),
  ...rows('VMPool', 'Ready', 'False', {
    Preparing: [
      'Guests are being booted. Where the image of one cannot be pulled the message has the kubelet’s words.',
      'Nothing; it goes on by itself. What cannot be pulled needs a RegistryCredential, or another image.',
    ],
    AskingRegistry: ['As with a VM.', waits],
    Unschedulable: [
      'No node has room for one more guest; room that becomes free is first that of VMs that wait for a node.',
      'Free or add what is missing.',
    ],
    PodRefused: [
      'kube-apiserver refused a pod (Pod Security, quota, LimitRange or a webhook); the message quotes it.',
      'Change what the message names; it is tried again.',
    ],
    InvalidSpec: [
      'The template, with what its VMConfig and image say, is not for a pool; the message names the field.',
      'Change that field.',
    ],
    ConfigNotFound: ['spec.template.config names a VMConfig that does not exist.', 'Create the VMConfig.'],
    ImageNotFound: ['As with a VM.', 'As with a VM.'],
    ImageNotReady: ['As with a VM.', waits],
    ImageFailed: ['As with a VM.', 'As with a VM.'],
    ImageTerminating: ['As with a VM.', 'As with a VM.'],
    ImagePullDenied: ['As with a VM.', 'As with a VM.'],
    ArchitectureMismatch: ['As with a VM.', 'As with a VM.'],
    GPUPassthroughDisabled: ['As with a VM.', 'As with a VM.'],
  }),
  ...rows('VMPool', 'Stalled', 'True', {
    ImagePullDenied: ['As with Ready.', 'As with Ready.'],
    ArchitectureMismatch: ['As with Ready.', 'As with Ready.'],
    ConfigNotFound: ['As with Ready, for more than a minute.', 'As with Ready.'],
    ImageNotFound: ['As with Ready, for more than a minute.', 'As with Ready.'],
    ImageFailed: ['As with Ready, for more than a minute.', 'As with Ready.'],
    ImageTerminating: ['As with Ready, for more than a minute.', 'As with Ready.'],
    InvalidSpec: ['As with Ready.', 'As with Ready.'],
    GPUPassthroughDisabled: ['As with Ready.', 'As with Ready.'],
  }),
  ...diskReasons,
];
