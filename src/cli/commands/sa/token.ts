import { command } from '../../command.ts';
import { usageError } from '../../usage.ts';

/** What a TokenRequest may ask for at most, in seconds, 136 years: a token without end does not exist. */
const longest = `${2 ** 32}`;

export const saToken = command({
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
