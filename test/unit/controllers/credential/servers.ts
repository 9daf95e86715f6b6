/**
 * What is an address of a registry, and which registry it is. One table for the parser here, the CEL rules in
 * kube-apiserver and the nodes of the local cluster.
 */
export interface ServerRow {
  readonly title: string;
  readonly server: string;
  /** Name of the RegistryCredential. */
  readonly name: string;
  /** As image references name it. */
  readonly registry: string;
  /** Keys of the docker config. */
  readonly keys: readonly string[];
  /** How kube-apiserver has to be given it, where that differs. */
  readonly canonical?: string;
}

const hub = { registry: 'docker.io', keys: ['https://index.docker.io/v1/'], name: 'index.docker.io.443' };
const full = '2001:0db8:0000:0000:0000:0000:0000:0001';
const dashed = '2001-0db8-0000-0000-0000-0000-0000-0001';

export const servers: readonly ServerRow[] = [
  {
    title: 'https without a port is port 443, with and without it',
    server: 'https://registry.example.com',
    name: 'registry.example.com.443',
    registry: 'registry.example.com',
    keys: ['registry.example.com', 'registry.example.com:443'],
  },
  {
    title: 'https with its own default port is the same registry',
    server: 'https://registry.example.com:443',
    name: 'registry.example.com.443',
    registry: 'registry.example.com',
    keys: ['registry.example.com', 'registry.example.com:443'],
  },
  {
    title: 'http without a port is port 80, which image references have to name',
    server: 'http://registry.example.com',
    name: 'registry.example.com.80',
    registry: 'registry.example.com:80',
    keys: ['registry.example.com:80'],
  },
  {
    title: 'http on port 443 is the registry that https means: the scheme is no identity',
    server: 'http://registry.example.com:443',
    name: 'registry.example.com.443',
    registry: 'registry.example.com',
    keys: ['registry.example.com', 'registry.example.com:443'],
  },
  {
    title: 'another port is another registry',
    server: 'https://registry.example.com:5000',
    name: 'registry.example.com.5000',
    registry: 'registry.example.com:5000',
    keys: ['registry.example.com:5000'],
  },
  {
    title: 'the highest port',
    server: 'https://registry.example.com:65535',
    name: 'registry.example.com.65535',
    registry: 'registry.example.com:65535',
    keys: ['registry.example.com:65535'],
  },
  {
    title: 'upper case is lower case',
    server: 'https://Registry.EXAMPLE.com:5000',
    name: 'registry.example.com.5000',
    registry: 'registry.example.com:5000',
    keys: ['registry.example.com:5000'],
    canonical: 'https://registry.example.com:5000',
  },
  {
    title: 'a host without dots',
    server: 'http://registry:5000',
    name: 'registry.5000',
    registry: 'registry:5000',
    keys: ['registry:5000'],
  },
  {
    title: 'an IPv4 address',
    server: 'http://10.0.0.7:5000',
    name: '10.0.0.7.5000',
    registry: '10.0.0.7:5000',
    keys: ['10.0.0.7:5000'],
  },
  { title: 'Docker Hub by its short name', server: 'https://docker.io', ...hub },
  { title: 'Docker Hub by the name of its index', server: 'https://index.docker.io', ...hub },
  { title: 'Docker Hub by the name of its registry', server: 'https://registry-1.docker.io', ...hub },
  { title: 'Docker Hub with its port', server: 'https://docker.io:443', ...hub },
  {
    title: 'Docker Hub in upper case',
    server: 'https://Docker.IO',
    ...hub,
    canonical: 'https://docker.io',
  },
  {
    title: 'a host that only looks like Docker Hub',
    server: 'https://mydocker.io',
    name: 'mydocker.io.443',
    registry: 'mydocker.io',
    keys: ['mydocker.io', 'mydocker.io:443'],
  },
  {
    title: 'an IPv6 address in full',
    server: `https://[${full}]:5000`,
    name: `${dashed}.5000`,
    registry: '[2001:db8::1]:5000',
    keys: ['[2001:db8::1]:5000', `[${full}]:5000`],
  },
  {
    title: 'an IPv6 address in full without a port',
    server: `https://[${full}]`,
    name: `${dashed}.443`,
    registry: '[2001:db8::1]',
    keys: ['[2001:db8::1]', '[2001:db8::1]:443', `[${full}]`, `[${full}]:443`],
  },
  {
    title: 'an IPv6 address in short and in upper case',
    server: 'http://[2001:DB8::1]',
    name: `${dashed}.80`,
    registry: '[2001:db8::1]:80',
    keys: ['[2001:db8::1]:80', `[${full}]:80`],
    canonical: `http://[${full}]`,
  },
  {
    title: 'the IPv6 address of the machine itself',
    server: 'http://[::1]:5000',
    name: '0000-0000-0000-0000-0000-0000-0000-0001.5000',
    registry: '[::1]:5000',
    keys: ['[::1]:5000', '[0000:0000:0000:0000:0000:0000:0000:0001]:5000'],
    canonical: 'http://[0000:0000:0000:0000:0000:0000:0000:0001]:5000',
  },
];

/** Refused here and by kube-apiserver alike, naming the server. */
export const refusedServers: readonly { title: string; server: string; why: RegExp }[] = [
  { title: 'no scheme', server: 'registry.example.com', why: /must begin with https:\/\/ or http:\/\// },
  { title: 'no scheme but a port', server: 'registry.example.com:5000', why: /must begin with/ },
  { title: 'another scheme', server: 'ftp://registry.example.com', why: /must begin with/ },
  { title: 'a scheme in upper case', server: 'HTTPS://registry.example.com', why: /must begin with/ },
  { title: 'nothing', server: '', why: /must begin with/ },
  { title: 'no host', server: 'https://', why: /has no host/ },
  { title: 'only a port', server: 'https://:5000', why: /has no host/ },
  { title: 'a trailing slash', server: 'https://registry.example.com/', why: /end with a slash/ },
  { title: 'a path', server: 'https://registry.example.com/v2', why: /must not have a path/ },
  { title: 'the address Docker writes for its Hub', server: 'https://index.docker.io/v1/', why: /path/ },
  { title: 'a user', server: 'https://alice@registry.example.com', why: /user name or password/ },
  { title: 'a password', server: 'https://alice:secret@registry.example.com', why: /user name or password/ },
  { title: 'a query', server: 'https://registry.example.com?a=b', why: /query/ },
  { title: 'a fragment', server: 'https://registry.example.com#a', why: /fragment/ },
  { title: 'a space', server: 'https://registry.example.com ', why: /spaces/ },
  { title: 'a line break', server: 'https://registry.example.com\n', why: /spaces/ },
  { title: 'port 0', server: 'https://registry.example.com:0', why: /between 1 and 65535/ },
  { title: 'port 65536', server: 'https://registry.example.com:65536', why: /between 1 and 65535/ },
  { title: 'port 70000', server: 'https://registry.example.com:70000', why: /between 1 and 65535/ },
  { title: 'port 99999', server: 'https://registry.example.com:99999', why: /between 1 and 65535/ },
  { title: 'a port of six digits', server: 'https://registry.example.com:100000', why: /between 1 and/ },
  { title: 'a port with a zero in front', server: 'https://registry.example.com:0443', why: /between 1 and/ },
  { title: 'a port that is a word', server: 'https://registry.example.com:https', why: /between 1 and/ },
  { title: 'an empty port', server: 'https://registry.example.com:', why: /between 1 and 65535/ },
  { title: 'two ports', server: 'https://registry.example.com:5000:1', why: /between 1 and|not a host/ },
  { title: 'a wildcard', server: 'https://*.example.com', why: /not a host name/ },
  { title: 'an underscore', server: 'https://my_registry.example.com', why: /not a host name/ },
  { title: 'an empty label', server: 'https://registry..example.com', why: /not a host name/ },
  { title: 'a dot at the end', server: 'https://registry.example.com.', why: /not a host name/ },
  { title: 'a hyphen at the end', server: 'https://registry.example.com-', why: /not a host name/ },
  { title: 'a label that begins with a hyphen', server: 'https://registry.-example.com', why: /not a host/ },
  { title: 'letters of other scripts', server: 'https://regístry.example.com', why: /not a host name/ },
  { title: 'an IPv6 address without brackets', server: 'https://2001:db8::1', why: /between|not a host/ },
  { title: 'an open bracket', server: 'https://[2001:db8::1', why: /not a host name|has no host/ },
  { title: 'an IPv6 address of nine groups', server: 'https://[1:2:3:4:5:6:7:8:9]', why: /not a host/ },
  { title: 'an IPv6 address of seven groups', server: 'https://[1:2:3:4:5:6:7]', why: /not a host/ },
  { title: 'an IPv6 zone', server: 'https://[fe80::1%25eth0]', why: /not a host name/ },
  { title: 'a host of 300 characters', server: `https://${'a.'.repeat(150)}com`, why: /longer than/ },
];
