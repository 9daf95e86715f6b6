/** The image store of a local cluster: an OCI registry with basic authentication, plain HTTP inside the sandbox. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { registryHost } from './addresses.ts';
import { run } from '../host/command.ts';
import { type Settings, registryUser, writeSecret } from './state.ts';

/** Writes the registry's configuration and returns its path. */
export async function configureRegistry(state: string, settings: Settings): Promise<string> {
  const folder = join(state, 'registry');
  await mkdir(join(folder, 'data'), { recursive: true });
  await writeSecret(join(folder, 'htpasswd'), `${registryUser}:${await bcrypt(settings.registryPassword)}\n`);
  const config = {
    version: '0.1',
    log: { level: 'warn', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(folder, 'data') }, delete: { enabled: true } },
    http: { addr: registryHost, secret: settings.registryPassword },
    auth: { htpasswd: { realm: 'svc3', path: join(folder, 'htpasswd') } },
  };
  const path = join(folder, 'config.yml');
  await writeSecret(path, JSON.stringify(config));
  return path;
}

/** The registry knows no other hash. Perl's crypt is that of the C library, and Perl is on every Debian. */
export async function bcrypt(password: string): Promise<string> {
  const salt = '$2b$04$' + Buffer.from(password).toString('hex').padEnd(22, '0').slice(0, 22);
  const program = 'my ($p, $s) = split /\\n/, join("", <STDIN>); print crypt($p, $s)';
  const hash = await run('perl', ['-e', program], { input: `${password}\n${salt}\n` });
  if (!hash.startsWith('$2b$')) throw new Error('crypt of this C library has no bcrypt');
  return hash;
}

/** hosts.toml of containerd for the store, under whatever name it is asked for. */
export function registryHostsToml(): string {
  return `server = "http://${registryHost}"\n\n[host."http://${registryHost}"]\n  capabilities = ["pull", "resolve"]\n`;
}
