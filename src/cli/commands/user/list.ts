import { command } from '../../command.ts';
import { userView } from '../../views.ts';

export const userList = command({
  path: ['user', 'list'],
  summary: 'List the users',
  examples: [{ line: 'svc3 user list', summary: 'Names and their accounts in svc3-users' }],
  async run({ out, users }) {
    await out.list(userView, await (await users()).list());
  },
});
