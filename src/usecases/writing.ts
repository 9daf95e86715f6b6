import { Svc3Error } from '../errors.ts';
import type { DeployRequest } from '../wire/deploy.ts';

/** Fields of a VM as a deploy or a change names them; where several of them make one, the first that the request says. */
export function deployFieldsOf(request: DeployRequest): Readonly<Record<string, string>> {
  const { sshNodePort, displayWidth, displayHeight, disk, diskStorage, diskSize } = request;
  return {
    ...deployFields,
    ...(disk === undefined ? named('spec.disk', said({ diskStorage, diskSize })) : {}),
    ...named('spec.disk.storage', said({ diskStorage })),
    ...named('spec.disk.size', said({ diskSize })),
    'spec.nodePorts': sshNodePort === undefined ? 'screenshareNodePort' : 'sshNodePort',
    'spec.display': said({ displayWidth, displayHeight }) ?? 'displayDPI',
  };
}

function named(field: string, name: string | undefined): Readonly<Record<string, string>> {
  return name === undefined ? {} : { [field]: name };
}

function said(fields: Readonly<Record<string, unknown>>): string | undefined {
  return Object.keys(fields).find((field) => fields[field] !== undefined);
}

const deployFields: Readonly<Record<string, string>> = {
  'spec.config': 'vmConfig',
  'spec.pool': 'pool',
  'spec.configNamespace': 'vmConfigNamespace',
  'spec.nodeName': 'node',
  'spec.ports': 'reservedPorts',
  'spec.nodePorts.ssh': 'sshNodePort',
  'spec.nodePorts.screenshare': 'screenshareNodePort',
  'spec.metadata': 'customVMMetadata',
  'spec.display.width': 'displayWidth',
  'spec.display.height': 'displayHeight',
  'spec.display.dpi': 'displayDPI',
  'spec.startDeadlineSeconds': 'timeout',
  'metadata.generateName': 'name',
  'metadata.name': 'name',
};

/** kube-apiserver's refusal of an object, with the fields as the caller of `/api/v1` wrote them. */
function inWordsOfRequest(error: unknown, names: Readonly<Record<string, string>> = deployFields): unknown {
  if (!(error instanceof Svc3Error) || error.details.causes === undefined) return error;
  const causes = error.details.causes.map((cause) => {
    const known = Object.entries(names).find(
      ([from]) => cause.field === from || cause.field.startsWith(`${from}[`),
    );
    return { ...cause, field: known?.[1] ?? cause.field.replace(/^spec\.(template\.)?/, '') };
  });
  // kube-apiserver names its own fields, and dumps objects.
  const isOfFields = error.message.includes(' is invalid: ');
  const message = isOfFields ? causes.map((one) => `${one.field}: ${one.message}`).join('; ') : error.message;
  return new Svc3Error(error.reason, message, { details: { ...error.details, causes }, cause: error });
}

/** Runs a write and gives its refusal the request's field names. */
export async function writing<T>(
  write: () => Promise<T>,
  names?: Readonly<Record<string, string>>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw inWordsOfRequest(error, names);
  }
}
