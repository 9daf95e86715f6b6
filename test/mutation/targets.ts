/** Whose tests are tried, and how much they have to notice. */
export interface Target {
  readonly name: string;
  /** Globs of the sources that are changed. */
  readonly sources: readonly string[];
  /** Share of the mutants that tests have to notice. */
  readonly goal: number;
}

export const targets: readonly Target[] = [
  { name: 'placement', sources: ['src/placement/*.ts'], goal: 0.9 },
  {
    name: 'vm',
    // What decides; what asks and writes is tested on a real control plane.
    sources: [
      'src/controllers/vm/{accounting,avoidednodes,decide,deploybackoff,expectations,kept,names,pacing,priority,rounds,waiting}.ts',
      'src/controllers/vm/resolve/{adoption,changes,disknames,effective,imagememory,imageref,imagesize,livesettings,meaning,nextsettings,planned,resolve,savedguest}.ts',
      'src/controllers/vm/{explain,facts,life,pod}/*.ts',
      'src/controllers/vm/runner/{asrequested,diskgrowth,openports,power,runnerlinks}.ts',
      'src/controllers/vm/status/!(statuswriter).ts',
    ],
    goal: 0.8,
  },
  { name: 'node', sources: ['src/controllers/node/!(controller|settings).ts'], goal: 0.8 },
  {
    name: 'credential',
    sources: [
      'src/controllers/credential/!(controller|settings|insecureregistries).ts',
      'src/registry/identity.ts',
    ],
    goal: 0.9,
  },
  { name: 'registry', sources: ['src/registry/*.ts'], goal: 0.8 },
  { name: 'worker', sources: ['src/worker/*.ts'], goal: 0.9 },
  {
    name: 'control',
    sources: ['src/runnerapi/*.ts', 'src/runner/controlkeys.ts', 'src/controllers/vm/runner/controlkeys.ts'],
    goal: 0.9,
  },
  {
    name: 'http',
    sources: [
      'src/http/auth/*.ts',
      'src/http/aggregated/requestheader.ts',
      'src/http/call/{accounts,bytebudget,expiringmap,visible}.ts',
      'src/http/server/{body,json,pieces}.ts',
      'src/http/streams/{streamadmission,streamlease,streamrequest}.ts',
      'src/net/*.ts',
    ],
    goal: 0.8,
  },
  { name: 'controller', sources: ['src/controller/*.ts'], goal: 0.8 },
];
