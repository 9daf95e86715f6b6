export interface SshTarget {
  readonly name: string;
  readonly namespace: string;
  readonly user: string | undefined;
  readonly identity: string | undefined;
  /** Command whose standard input and output are port 22 of the VM. */
  readonly tunnel: readonly string[];
  /** Further options and the command to run; ssh takes both after the host. */
  readonly rest: readonly string[];
}

/** The arguments of ssh for a VM behind a tunnel. */
export function sshWords({ name, namespace, user, identity, tunnel, rest }: SshTarget): string[] {
  return [
    '-o',
    `ProxyCommand=${tunnel.map(shellQuoted).join(' ')}`,
    // Names of VMs come again with other keys: each VM of each namespace has its own line in known_hosts.
    '-o',
    `HostKeyAlias=${name}.${namespace}.svc3`,
    ...(user === undefined ? [] : ['-l', user]),
    ...(identity === undefined ? [] : ['-i', identity]),
    name,
    ...rest,
  ];
}

/** ssh hands ProxyCommand to a shell and expands % in it. */
function shellQuoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`).replaceAll('%', '%%')}'`;
}
