import { command } from '../../command.ts';

export const nodeTag = command({
  path: ['node', 'tag'],
  summary: 'Tag a node, so that VMs can ask for it',
  arguments: {
    name: { summary: 'Name of the node', complete: 'nodes' },
    tag: { summary: 'Tag: 1 to 63 letters, digits, "-", "_" or "."' },
  },
  examples: [{ line: 'svc3 node tag worker-1 ssd', summary: 'VMs deployed with --tag ssd prefer it' }],
  async run({ out, namespace, service }, { arguments: { name, tag } }) {
    const [{ nodes }, ns] = await Promise.all([service(), namespace()]);
    await nodes.tag(ns, name, tag);
    await out.done('node', name, `Tagged node ${name} with ${tag}`);
  },
});
