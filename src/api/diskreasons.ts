import { nothing, type ReasonRow, rows, waits } from './reasonrows.ts';

/** What the conditions of Images and ISOs say. */
export const diskReasons: readonly ReasonRow[] = [
  ...rows('Image, ISO', 'Ready', 'True', {
    Stored: ['The disk is in the store.', nothing],
  }),
  ...rows('Image, ISO', 'Ready', 'False', {
    Pending: ['The work has not begun.', waits],
    Working: ['The disk is being made; status.progress says how far it is.', waits],
    AwaitingUpload: [
      'The disk waits for an upload.',
      'Upload it: `svc3 image upload`, an ISO `svc3 iso upload`.',
    ],
    UploadAbandoned: [
      'An upload broke off and nobody went on with it for as long as the chart value store.uploadExpiryHours says (a day); what had come was forgotten.',
      'Upload it again: `svc3 image upload`, an ISO `svc3 iso upload`.',
    ],
    SourceNotFound: [
      'The source does not exist, is a reference that is none (the message says why), or was being deleted when the copy was made; another one of its name is taken when it is there.',
      'Create the source, or delete the Image or ISO and make it again from another.',
    ],
    SourceDeleted: [
      'The VM was deleted or reverted before its disk was saved, or its Ephemeral disk went with its pod; or it was being deleted when the Image was made.',
      'Nothing can be done for that disk; delete the Image.',
    ],
    SourceNotReady: [
      'The source exists and is not ready; a VM has no runner yet or is suspended on its disk, or does not run where its memory is to be saved.',
      'Nothing, while it is being made or started; start a VM that is off, resume one that is suspended, or delete the Image.',
    ],
    MemoryRefused: [
      'The memory of the VM cannot be saved: the message names the field that is in the way, or the VM does not run and is being deleted.',
      'Save the disk alone, or change that field; of a VM whose CD has been ejected, restart it first. Delete the Image.',
    ],
    RegistryDenied: [
      'A registry refused the credential, or there is none.',
      'Add a registry credential for it.',
    ],
    RegistryUnreachable: [
      'A registry does not answer, fails, or takes nothing into a repository; the message quotes it.',
      'Make the repository, or its project, where the message says that it may have to be made; it is tried again with exponential backoff.',
    ],
    DiskRefused: ['The disk file is not acceptable; the message says why.', 'Use another file.'],
    UploadLost: [
      'What was uploaded is not in the store any more, as where the object was restored or copied with its annotations.',
      'Upload it again: `svc3 image upload`, an ISO `svc3 iso upload`.',
    ],
    WorkerFailed: [
      'The worker pod failed, or the copy that the runner of the VM makes of its disk, or the registry has no room for the disk (a quota, or the largest upload that it takes); the message quotes it.',
      "It is tried again with exponential backoff. Where the registry has no room, make some there, or have its limit raised. Where the VM's storage has no room for the copy, make some: on a claim by `svc3 vm resize`; of an Ephemeral disk on its node, as by `crictl rmi --prune`, where the message says that the kubelet may evict pods; in the guest, by deleting files and `fstrim`, where it says that it evicts the pod. The limit of ephemeral storage (LimitRange) cannot be raised for a pod that is there: only the next one has a larger one, with a new disk.",
    ],
    WorkerRefused: [
      'Quota, Pod Security or a webhook refused the worker pod, or another pod has its name; the message says which.',
      'Let the namespace have one more pod, or delete the one in the way; it is tried again with exponential backoff.',
    ],
    RunnerUnreachable: [
      'The runner of the VM to be saved does not answer or refuses; the message quotes it.',
      'Look at the VM; it is tried again with exponential backoff.',
    ],
    StoreMissing: ['The installation has no image store.', 'Set the chart value store.url.'],
    InUse: [
      'It is being deleted, and VMs or VMPools still use it, claims have the disks of deleted VMs that were made on it, or copies of it are not done; the message names them.',
      'Delete VMs and VMPools, and claims that nobody wants any more; it waits for copies, unless they are deleted.',
    ],
    DeletionRefused: [
      'It is being deleted, and the store refuses to delete what it has of it; the message quotes it.',
      'Nothing while the store is read-only, else lift the rule that is in the way; it is tried again with exponential backoff, and after an hour goes without.',
    ],
  }),
  ...rows('Image, ISO', 'Committed', 'True', {
    Stored: ['The last commit is in the store; VMs that are placed from now on run from it.', nothing],
  }),
  ...rows('Image, ISO', 'Committed', 'Unknown', {
    Working: ['A commit is under way; the version before stays usable.', waits],
  }),
  ...rows('Image, ISO', 'Committed', 'False', {
    CommitRefused: [
      'The VM does not run from this Image; the message says what it runs from.',
      'Commit it to the Image that it runs from, or save it under a name.',
    ],
    SourceNotFound: ['The VM does not exist; the version before stays usable.', 'Name another VM.'],
    SourceDeleted: [
      'The VM was deleted or reverted before its disk was saved, or its Ephemeral disk went with its pod; the version before stays usable.',
      'Nothing can be done for that disk.',
    ],
    DiskRefused: [
      'The disk of the VM is not acceptable; the message says why; the version before stays usable.',
      'Commit another VM.',
    ],
    UploadLost: [
      'The annotation svc3.dev/upload names an upload that is not in the store; what is stored stays usable.',
      'Nothing; delete the disk and upload it again where another is wanted.',
    ],
    SourceNotReady: [
      'The VM has no runner yet, or is suspended on its disk; the message says which.',
      'Nothing, while it is being started; resume a VM that is suspended.',
    ],
    RegistryDenied: ['As with Ready.', 'As with Ready.'],
    RegistryUnreachable: ['As with Ready.', 'As with Ready.'],
    RunnerUnreachable: ['As with Ready.', 'As with Ready.'],
    StoreMissing: ['As with Ready.', 'As with Ready.'],
    WorkerFailed: ['As with Ready.', 'As with Ready.'],
    WorkerRefused: ['As with Ready.', 'As with Ready.'],
  }),
  ...rows('Image, ISO', 'Stalled', 'True', {
    AwaitingUpload: ['As with Ready.', 'As with Ready.'],
    RegistryDenied: ['As with Ready.', 'As with Ready.'],
    SourceNotFound: ['As with Ready.', 'As with Ready.'],
    SourceDeleted: ['As with Ready.', 'As with Ready.'],
    StoreMissing: ['As with Ready.', 'As with Ready.'],
    MemoryRefused: ['As with Ready.', 'As with Ready.'],
    DiskRefused: ['As with Ready.', 'As with Ready.'],
    UploadAbandoned: ['As with Ready.', 'As with Ready.'],
    UploadLost: ['As with Ready.', 'As with Ready.'],
  }),
];
