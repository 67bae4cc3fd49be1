import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes and reads records of one partition. Its producer is idempotent, as is the default, unless acks forbid it. */
final class Records {
    private static final int REQUEST_BYTES_MAX = 16 << 20;

    private Records() {}

    static void produce(JsonNode command, ObjectNode answer) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(command)) {
            for (JsonNode record : command.get("records")) {
                sent.add(producer.send(record(partition(command), record)));
            }
        }
        ArrayNode offsets = answer.putArray("offsets");
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
    }

    static KafkaProducer<byte[], byte[]> producer(JsonNode command) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, command.get("bootstrap").asText());
        settings.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, command.get("compression").asText());
        settings.put(ProducerConfig.ACKS_CONFIG, command.get("acks").asText());
        settings.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, REQUEST_BYTES_MAX);
        settings.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, Interop.TIMEOUT_MS);
        settings.putAll(Interop.strings(command.get("options")));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ProducerRecord<byte[], byte[]> record(TopicPartition partition, JsonNode record) throws Exception {
        Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
        ProducerRecord<byte[], byte[]> produced = new ProducerRecord<>(
            partition.topic(), partition.partition(), timestamp, cell(record.get("key")), cell(record.get("value")));
        for (JsonNode header : record.get("headers")) {
            produced.headers().add(header.get("name").asText(), cell(header.get("value")));
        }
        return produced;
    }

    private static byte[] cell(JsonNode cell) throws Exception {
        return cell.isNull() ? null : cell.binaryValue();
    }

    static void consume(JsonNode command, ObjectNode answer) throws Exception {
        int count = command.get("count").asInt();
        ArrayNode records = answer.putArray("records");
        long deadline = System.nanoTime() + Duration.ofMillis(Interop.TIMEOUT_MS).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            TopicPartition partition = partition(command);
            consumer.assign(List.of(partition));
            consumer.seek(partition, start(consumer, partition, command));
            while (records.size() < count) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    put(record, records.addObject());
                }
                if (System.nanoTime() > deadline) {
                    throw new TimeoutException("only " + records.size() + " of " + count + " records came");
                }
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        Map<String, Object> settings = Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, command.get("bootstrap").asText(),
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none",
            ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static long start(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, JsonNode command) {
        if (!command.has("time")) {
            return command.get("offset").asLong();
        }
        long time = command.get("time").asLong();
        OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
        return found != null ? found.offset() : consumer.endOffsets(List.of(partition)).get(partition);
    }

    private static void put(ConsumerRecord<byte[], byte[]> record, ObjectNode read) {
        read.put("offset", record.offset()).put("timestamp", record.timestamp());
        read.put("key", record.key()).put("value", record.value());
        ArrayNode headers = read.putArray("headers");
        for (Header header : record.headers()) {
            headers.addObject().put("name", header.key()).put("value", header.value());
        }
    }

    static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }
}
