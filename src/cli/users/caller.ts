import { createHash } from 'node:crypto';
import type { AuthSource, ConnectionConfig, PemSource } from '../../kube/connection.ts';

/** Whose a connection is and with which cluster, for what is kept for one caller only. */
export interface Caller {
  /** A hash, for it is made of secrets. */
  readonly key: string;
  /** Whether the same kubeconfig may be of another person the next time: then only the cluster says whose it is. */
  readonly varies: boolean;
}

/** Names of contexts are the same in the kubeconfigs of all people. */
export async function callerOf(
  { ca, clientCertificate, auth }: ConnectionConfig,
  readPem: (source: PemSource) => Promise<string>,
): Promise<Caller> {
  const parts = [
    await textOf(ca, readPem),
    await textOf(clientCertificate?.cert, readPem),
    ...identityIn(auth),
  ];
  const key = createHash('sha256').update(JSON.stringify(parts)).digest('hex');
  return { key, varies: variesIn(auth) };
}

/** Of a file that cannot be read its name: who connects says what is wrong with it. */
async function textOf(
  source: PemSource | undefined,
  readPem: (source: PemSource) => Promise<string>,
): Promise<string> {
  if (source === undefined) return '';
  try {
    return await readPem(source);
  } catch {
    return 'file' in source ? source.file : '';
  }
}

/** A plugin goes by the environment and by who is logged in with it, and a file has what was written last. */
function variesIn({ kind }: AuthSource): boolean {
  return kind === 'exec' || kind === 'tokenFile';
}

/** A token in a file is another one every hour, mostly of the same person. */
function identityIn(auth: AuthSource): readonly unknown[] {
  switch (auth.kind) {
    case 'token':
      return [auth.kind, auth.token];
    case 'tokenFile':
      return [auth.kind, auth.file];
    case 'basic':
      return [auth.kind, auth.username];
    case 'exec': {
      const { command, args, env } = auth.plugin;
      return [auth.kind, command, args, env];
    }
    case 'asked':
    case 'none':
    default:
      return [auth.kind];
  }
}
