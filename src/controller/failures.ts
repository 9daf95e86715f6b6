/** What failed in a pass that goes on without it: whoever began it throws that once the rest is done. */
export class Failures {
  readonly #errors: unknown[] = [];

  /** What the work gives, or `otherwise` where it fails. */
  async attempt<T>(work: Promise<T>, otherwise: T): Promise<T> {
    try {
      return await work;
    } catch (error) {
      this.#errors.push(error);
      return otherwise;
    }
  }

  get count(): number {
    return this.#errors.length;
  }

  /** @throws the first failure; nothing where there is none. */
  throwFirst(): void {
    if (this.#errors.length > 0) throw this.#errors[0];
  }
}
