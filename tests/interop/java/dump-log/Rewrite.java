import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Reads records of the internal topic that the argument names with the classes of Kafka's broker, and writes them again.
 * Each line of standard input has a key and a value in hexadecimal, or a key alone if there is no value. The answer is
 * the key, and the value in each version that can hold what it says.
 */
public final class Rewrite {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws IOException {
        CoordinatorRecordSerde serde = serdeOf(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(rewrite(serde, line.split(" ")));
        }
    }

    private static CoordinatorRecordSerde serdeOf(String topic) {
        return switch (topic) {
            case "__consumer_offsets" -> new GroupCoordinatorRecordSerde();
            case "__transaction_state" -> new TransactionCoordinatorRecordSerde();
            case "__share_group_state" -> new ShareCoordinatorRecordSerde();
            default -> throw new IllegalArgumentException(topic);
        };
    }

    private static String rewrite(CoordinatorRecordSerde serde, String[] cells) {
        ByteBuffer value = cells.length == 1 ? null : ByteBuffer.wrap(HEX.parseHex(cells[1]));
        CoordinatorRecord record = serde.deserialize(ByteBuffer.wrap(HEX.parseHex(cells[0])), value);
        StringBuilder written = new StringBuilder(HEX.formatHex(serde.serializeKey(record)));
        if (value != null) {
            ApiMessage message = record.value().message();
            for (short version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++) {
                ApiMessageAndVersion versioned = new ApiMessageAndVersion(message, version);
                try {
                    byte[] bytes = serde.serializeValue(CoordinatorRecord.record(record.key(), versioned));
                    written.append(' ').append(HEX.formatHex(bytes));
                } catch (UnsupportedVersionException error) {
                    // This version has no place for some field that is set.
                }
            }
        }
        return written.toString();
    }
}
