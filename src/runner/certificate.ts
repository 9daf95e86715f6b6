import { generateKeyPairSync, randomBytes, sign, X509Certificate } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { fingerprintOf } from '../runnerapi/fingerprint.ts';
import { writeWhole } from './statefile.ts';
import { asStorage } from './storage.ts';

export interface RunnerCertificate {
  readonly key: string;
  readonly certificate: string;
  readonly fingerprint: string;
}

export interface CertificatePlace {
  /** On the volume of the disk: a pod whose node was restarted is the same pod, and its memory volumes are empty. */
  readonly path: string;
  readonly vmUid: string;
  /** A volume that outlives pods may hold the certificate of the pod before. */
  readonly podUid: string;
}

/** The certificate of this pod: callers pin it per pod UID, so a runner that was restarted in place shows the same one. */
export async function ensureCertificate({
  path,
  vmUid,
  podUid,
}: CertificatePlace): Promise<RunnerCertificate> {
  const kept = await keptCertificate(path);
  if (kept?.podUid === podUid) return kept;
  const made = { ...createCertificate(vmUid), podUid };
  await asStorage("the runner's certificate", async () => {
    // Of a pod that is gone; a volume that is full has room for one of them.
    await rm(path, { force: true });
    await writeWhole(path, JSON.stringify(made));
  });
  return made;
}

async function keptCertificate(path: string): Promise<(RunnerCertificate & { podUid: string }) | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as RunnerCertificate & { podUid: string };
  } catch {
    return undefined;
  }
}

/**
 * A self-signed ECDSA certificate: pinned, not verified against a CA. Written out in DER here, and not made by `x509.ts`, because its library
 * costs every VM's pod 25 MB and 0.13 s.
 */
export function createCertificate(vmUid: string): RunnerCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = sequence(objectId('2a8648ce3d040302'));
  const name = sequence(
    der(0x31, sequence(objectId('550403'), text(0x0c, `svc3-runner-${vmUid}`.slice(0, 64)))),
  );
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    // A leading 1 keeps the number positive and of one length.
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    name,
    sequence(text(0x17, '200101000000Z'), text(0x18, '99991231235959Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
  );
  const signature = sign('sha256', body, privateKey);
  const certificate = sequence(body, algorithm, der(0x03, Buffer.concat([Buffer.from([0]), signature])));
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    certificate: new X509Certificate(certificate).toString(),
    fingerprint: fingerprintOf(certificate),
  };
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

function sequence(...members: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(members));
}

function objectId(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

/** Strings and times: UTF8String, UTCTime (before 2050), GeneralizedTime (from then on). */
function text(tag: 0x0c | 0x17 | 0x18, value: string): Buffer {
  return der(tag, Buffer.from(value, 'utf8'));
}
