import { expect, test } from 'vitest';
import { requireOwnPage } from '../../../../src/http/ui/ownpage.ts';

const host = 'svc3.example.com';
const origin = `https://${host}`;

interface Row {
  readonly method?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly apiDomain?: string;
}

const ask = ({ method = 'GET', headers, apiDomain = '' }: Row) =>
  requireOwnPage(method, (name) => headers[name], apiDomain);

test.each<[string, Row]>([
  ['reads of the page', { headers: { host, 'sec-fetch-site': 'same-origin' } }],
  ['reads of a browser that says the origin only', { headers: { host, origin } }],
  ['writes of the page', { method: 'POST', headers: { host, origin, 'sec-fetch-site': 'same-origin' } }],
  ['writes over HTTP/2', { method: 'DELETE', headers: { ':authority': host, origin } }],
  ['writes behind a proxy', { method: 'POST', headers: { host: 'inside', origin }, apiDomain: host }],
])('lets %s through', (_, row) => {
  expect(() => ask(row)).not.toThrow();
});

test.each<[string, Row]>([
  ['reads that say nothing', { headers: { host } }],
  ['reads of another site', { headers: { host, 'sec-fetch-site': 'cross-site' } }],
  ['reads of a neighbour', { headers: { host, origin, 'sec-fetch-site': 'same-site' } }],
  ['an address that somebody typed', { headers: { host, 'sec-fetch-site': 'none' } }],
  ['writes without an origin', { method: 'POST', headers: { host, 'sec-fetch-site': 'same-origin' } }],
  ['writes of another site', { method: 'PATCH', headers: { host, origin: 'https://evil.example.com' } }],
  ['writes of another port', { method: 'PUT', headers: { host, origin: `${origin}:444` } }],
  ['writes of a page that came without TLS', { method: 'POST', headers: { host, origin: `http://${host}` } }],
  ['reads of a page that came without TLS', { headers: { host, origin: `http://${host}` } }],
  ['writes of a page without origin', { method: 'POST', headers: { host, origin: 'null' } }],
  [
    'writes that contradict themselves',
    { method: 'POST', headers: { host, origin, 'sec-fetch-site': 'cross-site' } },
  ],
  ['nobody knows what', { method: 'POST', headers: { origin } }],
])('refuses %s', (_, row) => {
  expect(() => ask(row)).toThrow('elsewhere');
});
