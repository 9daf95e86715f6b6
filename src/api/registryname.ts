import type { Rule } from './rule.ts';

/**
 * The identity of a registry in CEL, so that kube-apiserver itself holds "at most one per registry and namespace": the
 * object's name is `<host>.<port>`, the host in lower case, Docker Hub under the one name the kubelet gives it, an IPv6
 * address as eight groups of four digits joined by dashes.
 *
 * CEL's url() and split() are estimated as unbounded and break the budget of a rule, so this is done with replace() on
 * the one string whose length is bounded; it is also why an IPv6 address has to be written in full.
 */
const server = 'self.spec.server.lowerAscii()';
const address = `${server}.replace('https://', '').replace('http://', '')`;
const defaultPort = `(${server}.startsWith('https:') ? '443' : '80')`;
const hasPort = `${server}.matches('[^/:]:[0-9]+$') && !${server}.endsWith(']')`;

const hub = '^https?://(docker\\\\.io|index\\\\.docker\\\\.io|registry-1\\\\.docker\\\\.io)(:[0-9]+)?$';
const hubName = `'index.docker.io.' + (${hasPort} ? ${address}.replace('registry-1.', '').replace('index.', '').replace('docker.io:', '') : ${defaultPort})`;

// [0000:…:0001]:5000 → 0000-…-0001.5000
const ipv6Name = `${address}.replace(']:', '.').replace(':', '-').replace('[', '').replace(']', '') + (${server}.endsWith(']') ? '.' + ${defaultPort} : '')`;
const hostName = `${address}.replace(':', '.') + (${hasPort} ? '' : '.' + ${defaultPort})`;

const name = `(${server}.matches('${hub}') ? ${hubName} : ${server}.contains('[') ? ${ipv6Name} : ${hostName})`;

export const registryNameRule: Rule = {
  rule: `self.metadata.name == ${name}`,
  message: 'the name of a RegistryCredential is <host>.<port> of its server',
  messageExpression: `'the name of the RegistryCredential for ' + self.spec.server + ' is ' + ${name}`,
  fieldPath: '.metadata.name',
};
