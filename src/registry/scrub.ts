/**
 * Takes a credential out of a text that somebody else wrote: a registry that answers with the request it got, an admission
 * webhook that quotes the object it refused.
 */
export function scrub(text: string, login: { username: string; password: string }): string {
  const { username, password } = login;
  const forms = [
    base64(`${username}:${password}`),
    base64(password),
    encodeURIComponent(password),
    JSON.stringify(password).slice(1, -1),
    password,
  ];
  // A form of one or two characters would tear words apart and hides nothing.
  return forms
    .filter((form) => form.length > 2)
    .sort((a, b) => b.length - a.length)
    .reduce((clean, form) => clean.replaceAll(form, '***'), text);
}

/** Takes pieces of a secret in base64 out of a text, also where only a part of it is quoted. */
export function scrubBase64(text: string, secret: string): string {
  return text.replaceAll(/[A-Za-z0-9+/]{12,}=*/g, (run) => (secret.includes(run) ? '***' : run));
}

/** UTF-8 in base64. */
function base64(text: string): string {
  return new TextEncoder().encode(text).toBase64();
}
