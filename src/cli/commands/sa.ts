import { accountRoles } from '../../wire/schemas.ts';
import { command, type Command } from '../command.ts';
import { deleteAll } from '../deletion.ts';
import { usageError } from '../usage.ts';
import { serviceAccountView } from '../views.ts';

const saList = command({
  path: ['sa', 'list'],
  summary: 'List the service accounts of a namespace',
  onlyShows: true,
  examples: [{ line: 'svc3 sa list', summary: 'All of the namespace' }],
  async run({ out, namespace, service }) {
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    await out.list(serviceAccountView, await serviceAccounts.list(ns));
  },
});

const saCreate = command({
  path: ['sa', 'create'],
  summary: 'Create a service account, and bind it a role in its namespace',
  description:
    'Where no role is named it gets svc3-edit (VMs, configurations and images), and none, with a warning, where you may not bind it. The binding goes with the account. An account whose creation broke off before it got its role is completed by the same command.',
  arguments: { name: { summary: 'Name of the service account' } },
  options: {
    role: {
      kind: 'choice',
      choices: accountRoles,
      summary: 'What it may do in the namespace',
    },
  },
  examples: [
    { line: 'svc3 sa create ci', summary: 'For a pipeline that deploys VMs' },
    { line: 'svc3 sa create dashboard --role svc3-view', summary: 'For one that only looks' },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options: { role } }) {
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    await serviceAccounts.create(ns, name, role);
    await out.done('serviceaccount', name, `Created service account ${name}`);
  },
});

/** What a TokenRequest may ask for at most, in seconds, 136 years: a token without end does not exist. */
const longest = `${2 ** 32}`;

const saToken = command({
  path: ['sa', 'token'],
  summary: 'Issue a token for a service account',
  description:
    'The cluster may allow less than was asked for: then it says so, and the expiry of the answer is the real one.',
  arguments: { name: { summary: 'Name of the service account', complete: 'serviceAccounts' } },
  options: {
    duration: {
      kind: 'text',
      placeholder: 'DURATION',
      summary: 'How long it is valid, e.g. 720h or 30d; one year where nothing is said',
    },
    'no-expiration': {
      kind: 'flag',
      summary: 'The longest that the cluster gives; says on stderr until when it is valid',
    },
  },
  examples: [
    { line: 'TOKEN=$(svc3 sa token ci)', summary: 'One year, for a script' },
    { line: 'TOKEN=$(svc3 sa token ci --no-expiration)', summary: 'As long as the cluster lets it live' },
    { line: 'svc3 sa token ci --duration 24h -o json', summary: 'One day, with its expiry' },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options }) {
    const duration = durationOf(options.duration, options['no-expiration']);
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    const issued = await serviceAccounts.token(ns, name, duration === undefined ? {} : { duration });
    if (options['no-expiration']) out.note(`The token is valid until ${issued.expirationTimestamp}.`);
    await out.value(issued, issued.token);
  },
});

function durationOf(duration: string | undefined, noExpiration: boolean): string | undefined {
  if (!noExpiration) return duration;
  if (duration !== undefined) throw usageError('--duration and --no-expiration exclude each other');
  return longest;
}

const saDelete = command({
  path: ['sa', 'delete'],
  summary: 'Delete service accounts; their tokens end at once',
  arguments: {
    name: { summary: 'Names of the service accounts', variadic: true, complete: 'serviceAccounts' },
  },
  examples: [{ line: 'svc3 sa delete ci', summary: 'No token of it works any more' }],
  async run(context, { arguments: { name } }) {
    const [{ serviceAccounts }, ns] = await Promise.all([context.service(), context.namespace()]);
    await deleteAll(context, 'serviceaccount', name, (each) => serviceAccounts.delete(ns, each));
  },
});

export const commands: readonly Command[] = [saList, saCreate, saToken, saDelete];
