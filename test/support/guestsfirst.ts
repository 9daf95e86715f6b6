import type { TestSpecification } from 'vitest/node';
import { BaseSequencer } from 'vitest/node';

const bootsGuests = ({ moduleId }: TestSpecification): boolean => moduleId.includes('/integration/runner/');

/** Files whose guests take longest are begun first, so that no processor waits for the last of them at the end. */
export class GuestsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return [...sorted.filter(bootsGuests), ...sorted.filter((file) => !bootsGuests(file))];
  }
}
