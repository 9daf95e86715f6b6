/** Commands for one cluster, as somebody types them who has called this one so. */
export interface Words {
  readonly status: string;
  readonly down: string;
  readonly up: string;
}

export function wordsFor(name: string, variables: Readonly<Record<string, string | undefined>>): Words {
  const named = name === 'default' ? '' : ` --name ${name}`;
  // Before the PATH is set, `svc3` is only known to npm.
  const svc3 = variables['npm_command'] === undefined ? 'svc3' : 'npm run -s svc3 --';
  const ofDev = (verb: string): string => `${svc3} dev ${verb}${named}`;
  const ofNpm = (verb: string): string => `npm ${verb}${named === '' ? '' : ` --${named}`}`;
  const isNpmStart = variables['npm_lifecycle_event'] === 'start';
  return {
    status: ofDev('status'),
    down: isNpmStart ? ofNpm('stop') : ofDev('down'),
    up: isNpmStart ? ofNpm('start') : ofDev('up'),
  };
}
