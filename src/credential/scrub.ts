import { base64, basicAuth } from './dockerconfig.ts';

/**
 * Takes a credential out of a text that somebody else wrote: a registry that answers with the request it got, an admission
 * webhook that quotes the object it refused.
 */
export function scrub(text: string, login: { username: string; password: string }): string {
  const { username, password } = login;
  const forms = [basicAuth(username, password), base64(password), encodeURIComponent(password), password];
  // A form of one or two characters would tear words apart and hides nothing.
  return forms
    .filter((form) => form.length > 2)
    .sort((a, b) => b.length - a.length)
    .reduce((clean, form) => clean.replaceAll(form, '***'), text);
}
