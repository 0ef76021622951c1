// The tensors that a trainer changes in place.
// SPDX-License-Identifier: Apache-2.0
package fed;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A model while its callback runs: float32 tensors by name, in the memory from which the library takes the result.
 *
 * <p>Once the callback has returned, every method throws IllegalStateException. The memory belongs to the Java machine,
 * so a buffer that was kept is stale, and can neither crash the process nor change a later round.
 */
public final class Model {
    private static final class Place {
        final int[] shape;
        final int begin, size;

        Place(int[] shape, int begin, int size) {
            this.shape = shape;
            this.begin = begin;
            this.size = size;
        }
    }

    private final Map<String, Place> places = new LinkedHashMap<>();
    private final int size;
    private volatile ByteBuffer values; // null: the callback has returned

    /** offset: the place of the first value in the block, in bytes. */
    Model(ByteBuffer block, int offset, byte[][] names, int[][] shapes) {
        int begin = 0;
        for (int k = 0; k < names.length; k++) {
            int count = 1;
            for (int extent : shapes[k]) {
                count *= extent;
            }
            places.put(Native.text(names[k]), new Place(shapes[k], begin, count));
            begin += count;
        }
        size = begin;
        values = Model.part(block, offset, size);
    }

    private static ByteBuffer part(ByteBuffer bytes, int offset, int count) {
        ByteBuffer part = bytes.duplicate();
        part.limit(offset + count * Float.BYTES);
        part.position(offset);
        return part.slice().order(ByteOrder.nativeOrder());
    }

    void end() {
        values = null;
    }

    private ByteBuffer bytes() {
        ByteBuffer bytes = values;
        if (bytes == null) {
            throw new IllegalStateException("this model's callback has returned: copy what you need while it runs");
        }
        return bytes;
    }

    private Place place(String name) {
        bytes();
        Place place = places.get(name);
        if (place == null) {
            throw new IllegalArgumentException("the model has no tensor \"" + name + "\"; it has " + places.keySet());
        }
        return place;
    }

    /** The tensors' names, in the model's order. */
    public List<String> names() {
        bytes();
        return Collections.unmodifiableList(new ArrayList<>(places.keySet()));
    }

    /** A tensor's shape. Values that differ only in the last index lie side by side in memory. */
    public int[] shape(String name) {
        return place(name).shape.clone();
    }

    /** A tensor's values, which share the model's memory: a direct buffer in this machine's byte order. */
    public FloatBuffer values(String name) {
        Place place = place(name);
        return part(bytes(), place.begin * Float.BYTES, place.size).asFloatBuffer();
    }

    /** The values of all tensors, one after the other, as a buffer that shares the model's memory.
     */
    public FloatBuffer values() {
        return part(bytes(), 0, size).asFloatBuffer();
    }
}
