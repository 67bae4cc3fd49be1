import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Reads records of __consumer_offsets with the classes of Kafka's broker and writes them again. Each line of standard
 * input has a key and a value in hexadecimal, or a key alone if there is no value. The answer is the key, and the value
 * in each version that there is.
 */
public final class Rewrite {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(rewrite(line.split(" ")));
        }
    }

    private static String rewrite(String[] cells) {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        ByteBuffer value = cells.length == 1 ? null : ByteBuffer.wrap(HEX.parseHex(cells[1]));
        CoordinatorRecord record = serde.deserialize(ByteBuffer.wrap(HEX.parseHex(cells[0])), value);
        StringBuilder written = new StringBuilder(HEX.formatHex(serde.serializeKey(record)));
        if (value != null) {
            ApiMessage message = record.value().message();
            for (short version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++) {
                ApiMessageAndVersion versioned = new ApiMessageAndVersion(message, version);
                byte[] bytes = serde.serializeValue(CoordinatorRecord.record(record.key(), versioned));
                written.append(' ').append(HEX.formatHex(bytes));
            }
        }
        return written.toString();
    }
}
