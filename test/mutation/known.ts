/** A change by hand that once no test noticed; it is tried in every run of its target, whatever the sample. */
export interface Known {
  readonly file: string;
  /** Stands in the file once. */
  readonly was: string;
  readonly becomes: string;
  /** What is wrong with the changed file. */
  readonly what: string;
}

export const known: readonly Known[] = [
  {
    file: 'src/placement/taints.ts',
    was: 'toleration.effect !== taint.effect)',
    becomes: 'false)',
    what: 'a toleration counts for every effect',
  },
  {
    file: 'src/placement/taints.ts',
    was: 'everyPod.some((toleration) => tolerates(toleration, taint)) ||',
    becomes: '',
    what: 'the tolerations that every pod gets are forgotten',
  },
  {
    file: 'src/placement/place.ts',
    was: 'request.avoid?.has(state.name) !== true && portsOn',
    becomes: 'portsOn',
    what: 'a node that has just turned the pod away is taken again',
  },
  {
    file: 'src/placement/place.ts',
    was: '(untagged ? 1_000 : 0)',
    becomes: '(untagged ? 1 : 0)',
    what: 'a preferred tag weighs as much as one soft taint',
  },
  {
    file: 'src/placement/place.ts',
    was: 'vector[GPU] = request.gpu ? 1 : 0',
    becomes: 'vector[GPU] = 0',
    what: 'GPUs are not counted',
  },
  {
    file: 'src/placement/podfacts.ts',
    was: 'add(running, own);',
    becomes: '',
    what: 'sidecars take nothing once a pod runs',
  },
  {
    file: 'src/placement/podfacts.ts',
    was: 'add(sidecars, own);',
    becomes: '',
    what: 'sidecars take nothing while a pod starts',
  },
  {
    file: 'src/placement/podfacts.ts',
    was: 'putPodLevel(running, spec.resources?.requests);',
    becomes: '',
    what: 'what a pod asks for as a whole is not counted',
  },
  {
    file: 'src/placement/ports.ts',
    was: 'port.port <= range.last',
    becomes: 'port.port < range.last',
    what: 'the last port of a range belongs to no service',
  },
  {
    file: 'src/placement/ports.ts',
    was: 'port.port >= range.first',
    becomes: 'port.port > range.first',
    what: 'the first port of a range belongs to no service',
  },
  {
    file: 'src/placement/ports.ts',
    was: 'port <= range.last; port++',
    becomes: 'port < range.last; port++',
    what: 'the last port of a range is never given',
  },
  {
    file: 'src/controllers/vm/resolve/effective.ts',
    was: '{ ...configDisplay, ...display }',
    becomes: '{ ...display, ...configDisplay }',
    what: 'the display of the VMConfig wins over that of the VM',
  },
  {
    file: 'src/controllers/vm/resolve/effective.ts',
    was: '...(input.iso === undefined ? {} : { iso: input.iso, ...(isoName === undefined ? {} : { isoName }) }),',
    becomes: '',
    what: 'the ISO is not among the settings',
  },
  {
    file: 'src/controllers/vm/resolve/effective.ts',
    was: 'port >= range.first && port <= range.last',
    becomes: 'port > range.first && port < range.last',
    what: 'both ends of a range that is allowed are refused',
  },
  {
    file: 'src/controllers/vm/status/report.ts',
    was: 'vm.status?.runner?.podUid === podUid ? vm.status.runner : undefined',
    becomes: 'vm.status?.runner',
    what: 'what is known of the runner of another pod is kept',
  },
  {
    file: 'src/controllers/vm/runner/runnerlinks.ts',
    was: 'vm.status?.runner?.podUid === podUid ? vm.status.runner.fingerprint : undefined',
    becomes: 'vm.status?.runner?.fingerprint',
    what: "the fingerprint of another pod's runner is expected",
  },
  {
    file: 'src/controllers/vm/runner/power.ts',
    was: "revert !== undefined && isAsked('revertRequest', vm, state)",
    becomes: 'revert === null',
    what: 'a revert is never asked for',
  },
  {
    file: 'src/controllers/credential/decide.ts',
    was: "manager === fieldManagers.operator && operation === 'Apply'",
    becomes: 'manager === fieldManagers.operator',
    what: 'any write of ours makes a Secret ours, not only an apply',
  },
  {
    file: 'src/controllers/credential/decide.ts',
    was: "manager === fieldManagers.operator && operation === 'Apply'",
    becomes: "operation === 'Apply'",
    what: 'a Secret that anybody applied is ours',
  },
  {
    file: 'src/controllers/credential/insecure.ts',
    was: 'spec.allowInsecure && metadata.deletionTimestamp === undefined',
    becomes: 'spec.allowInsecure',
    what: 'a registry is trusted while its credential is being deleted',
  },
  {
    file: 'src/controller/leader.ts',
    was: 'renewDeadlineMs: 10_000',
    becomes: 'renewDeadlineMs: 20_000',
    what: 'a leader gives up after its lease has ended',
  },
  {
    file: 'src/runnerapi/token.ts',
    was: 'tokenLifetimeSeconds = 60;',
    becomes: 'tokenLifetimeSeconds = 720;',
    what: 'tokens live twelve times as long',
  },
  {
    file: 'src/http/aggregated/requestheader.ts',
    was: 'allowedNames.includes(name)',
    becomes: 'allowedNames.some((each) => name.startsWith(each))',
    what: 'a client certificate whose name only begins like an allowed one is believed',
  },
  {
    file: 'src/worker/qcow2header.ts',
    was: "!== 0n) refuse('has a backing file",
    becomes: "=== null) refuse('has a backing file",
    what: 'a backing file is accepted',
  },
  {
    file: 'src/worker/qcow2header.ts',
    was: "!== 0n) refuse('keeps its data in another file'",
    becomes: "=== null) refuse('keeps its data in another file'",
    what: 'an external data file is accepted',
  },
  {
    file: 'src/worker/qcow2header.ts',
    was: 'offset === 0n || offset % BigInt(clusterSize) !== 0n',
    becomes: 'offset === 0n',
    what: 'tables may lie anywhere',
  },
  {
    file: 'src/worker/qcow2header.ts',
    was: 'offset + BigInt(bytes) > BigInt(fileSize)',
    becomes: 'offset > BigInt(fileSize)',
    what: 'a table may end behind the file',
  },
  {
    file: 'src/worker/qcow2header.ts',
    was: 'length > last - at - 8',
    becomes: 'false',
    what: 'an extension may end behind the header',
  },
  {
    file: 'src/worker/qcow2header.ts',
    was: 'if (snapshots > 0 &&',
    becomes: 'if (snapshots < 0 &&',
    what: 'snapshots may lie behind the end of the file',
  },
  {
    file: 'src/controllers/node/hardware.ts',
    was: 'matching.length !== towerCardCount || others > 0',
    becomes: 'matching.length !== towerCardCount',
    what: 'a tower with two D500 and another card qualifies',
  },
  {
    file: 'src/controllers/node/hardware.ts',
    was: '!card.bootDisplay || card.driver === vfioDriver',
    becomes: '!card.bootDisplay',
    what: "the host's own screen is no VM's, though it was given up",
  },
  {
    file: 'src/controllers/node/hardware.ts',
    was: "!isOfCards(member, cards) && !member.class.startsWith('03')",
    becomes: '!isOfCards(member, cards)',
    what: "the host's own screen is a foreign device in the group of a GPU",
  },
  {
    file: 'src/registry/scrub.ts',
    was: 'form.length > 2',
    becomes: 'form.length > 8',
    what: 'passwords of up to eight characters stay in texts',
  },
  {
    file: 'src/registry/scrub.ts',
    was: 'b.length - a.length',
    becomes: 'a.length - b.length',
    what: 'a shorter form tears a longer one apart',
  },
];
