import { productVersion } from '../../api/meta.ts';
import { command, type Command } from '../command.ts';

const version = command({
  path: ['version'],
  summary: 'Show the version of this program, and with --server that of the installation',
  options: {
    server: { kind: 'flag', summary: 'Ask the installation too' },
  },
  examples: [
    { line: 'svc3 version', summary: 'Version of this program' },
    { line: 'svc3 version --server -o json', summary: 'And of the installation, for a script' },
  ],
  async run({ out, service }, { options }) {
    const client = productVersion;
    if (!options.server) return out.value({ client }, `svc3 ${client}`);
    const info = await (await service()).clusterInfo();
    const server = typeof info?.['version'] === 'string' ? info['version'] : undefined;
    await out.value(
      { client, ...(server === undefined ? {} : { server }) },
      `svc3 ${client}\nserver ${server ?? 'unknown: it has no HTTP API'}`,
    );
  },
});

export const commands: readonly Command[] = [version];
