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
    sources: [
      'src/controllers/vm/**/{decide,startdeadline,effective,pod,podports,podstate,power,report,request,overhead,claim,statusdraft}.ts',
    ],
    goal: 0.8,
  },
  {
    name: 'credential',
    sources: [
      'src/controllers/credential/{decide,dockerconfig,basicauth,insecure,status}.ts',
      'src/registry/identity.ts',
    ],
    goal: 0.9,
  },
  { name: 'registry', sources: ['src/registry/*.ts'], goal: 0.8 },
  { name: 'worker', sources: ['src/worker/*.ts'], goal: 0.9 },
  { name: 'runnerapi', sources: ['src/runnerapi/*.ts'], goal: 0.9 },
  {
    name: 'http',
    sources: [
      'src/http/**/{auth,limits,expiringmap,permission,fields,json,cookie,tickets}.ts',
      'src/net/range.ts',
    ],
    goal: 0.8,
  },
  { name: 'controller', sources: ['src/controller/*.ts'], goal: 0.8 },
];
