import { command } from '../../command.ts';

export const userRemove = command({
  path: ['user', 'remove'],
  summary: 'Remove a user; all tokens end at once (cluster administrators)',
  arguments: { name: { summary: 'Name of the user', complete: 'users' } },
  examples: [{ line: 'svc3 user remove alice@example.com', summary: 'No token of hers works any more' }],
  async run({ out, users }, { arguments: { name } }) {
    await (await users()).remove(name);
    await out.done('user', name, `Removed user ${name}`);
  },
});
