import { command } from '../../command.ts';

export const nodeUntag = command({
  path: ['node', 'untag'],
  summary: 'Remove a tag from a node',
  arguments: {
    name: { summary: 'Name of the node', complete: 'nodes' },
    tag: { summary: 'Tag: 1 to 63 letters, digits, "-", "_" or "."' },
  },
  examples: [{ line: 'svc3 node untag worker-1 ssd', summary: 'It is no longer preferred by --tag ssd' }],
  async run({ out, namespace, service }, { arguments: { name, tag } }) {
    const [{ nodes }, ns] = await Promise.all([service(), namespace()]);
    await nodes.untag(ns, name, tag);
    await out.done('node', name, `Removed tag ${tag} from node ${name}`);
  },
});
