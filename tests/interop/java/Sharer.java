import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a share group in a process of its own: accepts most of what it gets, releases and rejects some, and
 * writes a history as tests/faults/queues/sharer.py does. It leaves when it reads a line, and is gone when whoever started
 * it is.
 */
final class Sharer {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final int RUN = 25;

    private static volatile boolean isToldToLeave;

    private final JsonNode options;
    private final PrintStream history;
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    private final Random random;
    private long operations;

    private Sharer(JsonNode options) throws IOException {
        this.options = options;
        String name = options.get("name").asText();
        random = new Random(name.hashCode());
        Path path = Path.of(options.get("directory").asText(), name + ".jsonl");
        history = new PrintStream(new java.io.FileOutputStream(path.toFile()), true, StandardCharsets.UTF_8);
        consumer = new KafkaShareConsumer<>(
            Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap_servers").asText(),
                ConsumerConfig.GROUP_ID_CONFIG, options.get("share_group").asText(),
                ConsumerConfig.CLIENT_ID_CONFIG, name,
                "share.acknowledgement.mode", "explicit"),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(options.get("topic").asText()));
    }

    static void run(String text) throws IOException {
        Thread listening = new Thread(Sharer::listen);
        listening.setDaemon(true);
        listening.start();
        new Sharer(Interop.JSON.readTree(text)).work();
    }

    private static void listen() {
        try {
            if (System.in.read() < 0) {
                Runtime.getRuntime().halt(1);
            }
        } catch (IOException error) {
            Runtime.getRuntime().halt(1);
        }
        isToldToLeave = true;
    }

    private void work() {
        while (!isToldToLeave) {
            turn();
        }
        write("invoke", "depart", operations, Interop.JSON.createArrayNode(), null);
        write("ok", "depart", operations++, null, null);
        consumer.close(TIMEOUT);
    }

    private void turn() {
        ArrayNode given = Interop.JSON.createArrayNode();
        Map<AcknowledgeType, ArrayNode> said = new TreeMap<>();
        long fetch = operations++;
        write("invoke", "share", fetch, Interop.JSON.createArrayNode(), null);
        int position = 0;
        AcknowledgeType type = AcknowledgeType.ACCEPT;
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
            int count = record.deliveryCount().orElseThrow();
            given.addArray().add(record.partition()).add(record.offset()).add(count).addNull();
            if (position++ % RUN == 0) {
                double chance = random.nextDouble();
                type = chance < 0.1 ? AcknowledgeType.RELEASE
                    : chance < 0.13 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
            }
            said.computeIfAbsent(type, each -> Interop.JSON.createArrayNode())
                .addArray().add(record.partition()).add(record.offset()).add(count);
            consumer.acknowledge(record, type);
        }
        write("ok", "share", fetch, given, null);
        if (said.isEmpty()) {
            return;
        }
        long first = operations;
        said.forEach((each, records) -> write("invoke", "settle", operations++, records, verdict(each)));
        boolean isWhole;
        try {
            isWhole = consumer.commitSync(TIMEOUT).values().stream().allMatch(outcome -> outcome.isEmpty());
        } catch (KafkaException error) {
            isWhole = false;
        }
        // Of several partitions, or of an earlier attempt, some may count.
        for (long number = first; number < operations; number++) {
            write(isWhole ? "ok" : "info", "settle", number, null, null);
        }
    }

    private static String verdict(AcknowledgeType type) {
        return type.toString().toLowerCase(java.util.Locale.ROOT);
    }

    private void write(String type, String operation, long id, ArrayNode records, String verdict) {
        ObjectNode line = Interop.JSON.createObjectNode()
            .put("process", options.get("name").asText())
            .put("id", id)
            .put("time_ns", System.nanoTime())
            .put("type", type)
            .put("operation", operation);
        if (type.equals("invoke")) {
            line.put("group", options.get("share_group").asText())
                .put("topic", options.get("topic").asText())
                .put("member", options.get("name").asText())
                .put("is_exact", false)
                .put("wall_ms", 0);
        }
        if (records != null) {
            line.set("records", records);
        }
        if (verdict != null) {
            line.put("verdict", verdict);
        }
        history.println(line);
    }
}
