/** What the image of a pod of ours is pulled with; each is a chart value. */
export interface PullsWith {
  readonly image: string;
  readonly policy: 'Always' | 'IfNotPresent' | 'Never';
  /** Name of the Secret beside that of the namespace. */
  readonly secret: string | undefined;
}

/** The same for annotation `svc3.dev/pulls-with`: what the pod itself says of it a webhook may have rewritten. */
export function pullsWithText({ image, policy, secret }: PullsWith): string {
  return JSON.stringify({ image, policy, secret });
}
