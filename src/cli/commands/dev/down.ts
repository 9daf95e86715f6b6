import { command } from '../../command.ts';

export const devDown = command({
  path: ['dev', 'down'],
  summary: 'Stop the local cluster; its state stays for the next start',
  options: {
    name: { kind: 'text', placeholder: 'NAME', summary: 'Name of the cluster', fallback: 'default' },
    purge: { kind: 'flag', summary: 'Remove its state too' },
  },
  examples: [
    { line: 'svc3 dev down', summary: 'Stop it' },
    { line: 'svc3 dev down --purge', summary: 'Stop it and forget everything in it' },
  ],
  async run({ out, localCluster }, { options }) {
    const cluster = await localCluster();
    const { changed } = await cluster.down({
      name: options.name,
      purge: options.purge,
      progress: (text) => out.progress(text),
    });
    await out.done(
      'cluster',
      options.name,
      changed ? `The local cluster ${options.name} is down` : `The local cluster ${options.name} was not up`,
    );
  },
});
