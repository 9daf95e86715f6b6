import { X509Certificate, createPrivateKey, type KeyObject } from 'node:crypto';
import type * as z from 'zod';
import { actionsGroup } from '../../api/meta.ts';
import { Svc3Error, invalidField } from '../../errors.ts';
import { readWhole } from '../../net/foreign.ts';
import { validate } from '../../wire/fields.ts';
import type { JsonValue } from '../../wire/fields.ts';
import { brokenMultipart, maxFieldBytes } from '../uploads/multipart.ts';
import { readDiskBody, type DiskBody } from '../uploads/diskbody.ts';
import { defineRoute, type Call, type ReplyOf } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { success } from '../call/status.ts';
import { nameOfReference } from '../../wire/names.ts';
import type { UploadFacts } from '../../usecases/uploadtarget.ts';
import {
  beginUpload,
  begunReplies,
  isComplete,
  takenReplies,
  takenReply,
  takeUnmeasured,
} from './resumable.ts';
import { uploadPermission, uploadTag as tag } from './uploadrights.ts';

type UploadQuery = z.output<typeof schemas.uploadQuery>;

/** A name from a file's name: `Debian 12.qcow2` → `debian-12`. */
function nameOfFile(fileName: string): string {
  return nameOfReference(fileName.replace(/\.(qcow2|raw|img|iso)$/i, '').replaceAll('/', '-'), 'name');
}

const uploadReplies = { ...begunReplies, ...takenReplies };

/**
 * Streams the file of the body into the store; form fields in front of it are as good as the query's.
 *
 * @param nameOf - the disk's name where the request gives none, from the name of the file
 */
export async function upload(
  call: Call<{ namespace: string }, UploadQuery, unknown>,
  kind: 'Image' | 'ISO',
  nameOf: (fileName: string) => string = nameOfFile,
): Promise<ReplyOf<typeof uploadReplies>> {
  const { name } = call.query;
  if (isComplete(call) === false) {
    if (name === undefined) throw invalidField('name', 'is required in the query', 'FieldValueRequired');
    return beginUpload(call, { kind, namespace: call.params.namespace, name }, factsOf(call.query));
  }
  if (call.upload === undefined) throw invalidField('body', 'is required', 'FieldValueRequired');
  const isForm = /^multipart\//i.test(call.upload.contentType);
  if (call.upload.contentLength === undefined && !isForm && name !== undefined) {
    const target = { kind, namespace: call.params.namespace, name };
    return takenReply(call, kind, await takeUnmeasured(call, target, factsOf(call.query)));
  }
  const body = await readDiskBody(call.upload);
  try {
    return await takenReply(call, kind, await taken(call, { kind, nameOf }, body));
  } catch (error) {
    body.discard();
    throw error;
  }
}

function factsOf({ description, architecture }: UploadQuery): UploadFacts {
  return { description, architecture };
}

function taken(
  call: Call<{ namespace: string }, UploadQuery, unknown>,
  { kind, nameOf }: { readonly kind: 'Image' | 'ISO'; nameOf(fileName: string): string },
  body: DiskBody,
) {
  const { fields, fileName, size, content } = body;
  const given = JSON.parse(JSON.stringify({ ...fields, ...call.query })) as JsonValue;
  const query = validate(schemas.uploadQuery, given, 'query', () => undefined);
  if (query.name === undefined && fileName === '')
    throw invalidField('name', 'is required in the query of a raw upload', 'FieldValueRequired');
  const target = { kind, namespace: call.params.namespace, name: query.name ?? nameOf(fileName) };
  if (size === undefined) return takeUnmeasured(call, target, factsOf(query), content);
  return call.services.transfer.upload({
    ...target,
    ...factsOf(query),
    fileName: query.fileName ?? fileName,
    size,
    content,
    caller: call.caller,
    signal: call.signal,
  });
}

export const uploadImage = defineRoute({
  id: 'uploadImage',
  tag,
  method: 'POST',
  path: '/api/v1/namespaces/{namespace}/upload/image',
  summary: 'Upload an image: multipart, or the raw disk with ?name=.',
  params: schemas.namespaceParams,
  query: schemas.uploadQuery,
  body: schemas.nothing,
  bodyKind: 'upload',
  headers: schemas.uploadHeaders,
  takes: { form: schemas.uploadForm, raw: true },
  replies: uploadReplies,
  permission: uploadPermission,
  longRunning: true,
  handler: (call) => upload(call, 'Image'),
});

export const uploadIso = defineRoute({
  id: 'uploadIso',
  tag,
  method: 'POST',
  path: '/api/v1/namespaces/{namespace}/upload/iso',
  summary: 'Upload an ISO: multipart, or the raw medium with ?name=.',
  params: schemas.namespaceParams,
  query: schemas.uploadQuery,
  body: schemas.nothing,
  bodyKind: 'upload',
  headers: schemas.uploadHeaders,
  takes: { form: schemas.uploadForm, raw: true },
  replies: uploadReplies,
  permission: uploadPermission,
  longRunning: true,
  handler: (call) => upload(call, 'ISO'),
});

async function textOf(content: AsyncIterable<Uint8Array>, field: string): Promise<string> {
  const message = `must not be larger than ${maxFieldBytes} bytes`;
  const tooLarge = () =>
    new Svc3Error('RequestEntityTooLarge', `${field}: ${message}`, {
      details: { causes: [{ field, message }] },
    });
  try {
    return (await readWhole(content, maxFieldBytes, tooLarge)).toString('utf8');
  } catch (error) {
    throw brokenMultipart(error);
  }
}

function readCertificate(pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw Object.assign(invalidField('certPath', 'is not a certificate in PEM'), { cause: error });
  }
}

function readKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    // The cause is dropped on purpose: messages of the crypto library may quote the key.
    throw invalidField('keyPath', 'is not an unencrypted private key in PEM');
  }
}

/** Checks that certificate and key belong together and can serve now; RSA or ECDSA. */
function checkPair(cert: string, key: string, now: Date): void {
  const certificate = readCertificate(cert);
  const privateKey = readKey(key);
  if (privateKey.asymmetricKeyType !== 'rsa' && privateKey.asymmetricKeyType !== 'ec')
    throw invalidField('keyPath', 'must be an RSA or ECDSA key', 'FieldValueNotSupported');
  if (!certificate.checkPrivateKey(privateKey))
    throw invalidField('keyPath', 'does not belong to the certificate');
  if (certificate.validToDate < now)
    throw invalidField('certPath', `has expired on ${certificate.validToDate.toISOString()}`);
  if (certificate.validFromDate > now)
    throw invalidField('certPath', `is not valid before ${certificate.validFromDate.toISOString()}`);
}

export const uploadCertificate = defineRoute({
  id: 'uploadCertificate',
  tag: 'Cluster',
  method: 'POST',
  path: '/api/v1/upload/cert',
  summary: 'Replace the certificate of this API: multipart with certPath and keyPath in PEM.',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'upload',
  takes: { form: schemas.certificateForm, raw: false },
  replies: { 200: { description: 'New connections get the new certificate.', schema: schemas.status } },
  permission: {
    kind: 'checked',
    group: actionsGroup,
    resource: 'certificates',
    verb: 'create',
    scope: 'cluster',
  },
  async handler({ upload: content, services }) {
    const texts: Record<string, string> = {};
    for await (const part of content?.parts?.() ?? [])
      texts[part.name] = part.kind === 'file' ? await textOf(part.content, part.name) : part.value;
    const { certPath: cert, keyPath: key } = texts;
    if (cert === undefined) throw invalidField('certPath', 'is required', 'FieldValueRequired');
    if (key === undefined) throw invalidField('keyPath', 'is required', 'FieldValueRequired');
    checkPair(cert, key, new Date());
    await services.certificates.replace({ cert, key });
    return { body: success('the certificate was replaced') };
  },
});
