/** JSON that has been serialised already, of a body of type T. */
export type JsonText<T> = (string | Buffer) & { readonly [bodyOfText]?: T };
declare const bodyOfText: unique symbol;
