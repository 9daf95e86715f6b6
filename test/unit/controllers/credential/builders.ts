import type { Secret } from '../../../../src/api/core.ts';
import { namespaces, objectNames } from '../../../../src/api/meta.ts';
import type { RegistryCredential } from '../../../../src/api/registrycredential.ts';
import { pullSecretLabels, pullSecretType } from '../../../../src/controllers/credential/decide.ts';
import { base64, dockerConfigJson } from '../../../../src/controllers/credential/dockerconfig.ts';
import { parseServer } from '../../../../src/registry/identity.ts';

/** A credential of namespace `team`, with a Secret of its own name. */
export function aCredential(
  server: string,
  more: { metadata?: object; spec?: object; status?: RegistryCredential['status'] } = {},
): RegistryCredential {
  const { name, scheme } = parseServer(server);
  return {
    metadata: {
      name,
      namespace: 'team',
      uid: `uid-${name}`,
      generation: 1,
      resourceVersion: '7',
      ...more.metadata,
    },
    spec: { server, allowInsecure: scheme === 'http', secretRef: { name: `team.${name}` }, ...more.spec },
    ...(more.status === undefined ? {} : { status: more.status }),
  };
}

export function aBasicAuth(name: string, more: Partial<Secret> = {}): Secret {
  return {
    metadata: { name, namespace: namespaces.credentials, uid: `uid-${name}`, resourceVersion: '5' },
    type: 'kubernetes.io/basic-auth',
    data: { username: base64('alice'), password: base64('s3cret') },
    ...more,
  };
}

/** The pull Secret as svc3 makes it for these servers with the login of `aBasicAuth`. */
export function aPullSecret(registries: readonly string[], more: Partial<Secret> = {}): Secret {
  const logins = registries.map((server) => ({
    registry: parseServer(server),
    username: 'alice',
    password: 's3cret',
  }));
  return {
    metadata: {
      name: objectNames.pullSecret,
      namespace: 'team',
      uid: 'uid-pull',
      resourceVersion: '9',
      labels: { ...pullSecretLabels },
    },
    type: pullSecretType,
    data: { '.dockerconfigjson': base64(dockerConfigJson(logins)) },
    ...more,
  };
}
