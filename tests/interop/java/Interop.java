import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Does with the Java client what each line of standard input asks, and answers it with one line of JSON. Cells of
 * records travel in base64, and null stays null. What the broker refuses is answered with Kafka's name of the error.
 * With arguments it is a member of a group or a copier instead.
 */
public final class Interop {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int TIMEOUT_MS = 60_000;

    interface Action {
        void run(JsonNode command, ObjectNode answer) throws Exception;
    }

    private final Map<String, Action> actions = new LinkedHashMap<>();

    private Interop() {
        actions.put("create", Topics::create);
        actions.put("delete", Topics::delete);
        actions.put("list", Topics::list);
        actions.put("describe", Topics::describe);
        actions.put("addPartitions", Topics::addPartitions);
        actions.put("alterConfigs", Topics::alterConfigs);
        actions.put("describeConfigs", Topics::describeConfigs);
        actions.put("deleteRecords", Topics::deleteRecords);
        actions.put("logSizes", Topics::logSizes);
        actions.put("offset", Topics::offset);
        actions.put("listGroups", Groups::list);
        actions.put("describeGroups", Groups::describe);
        actions.put("describeClassicGroups", Groups::describeClassic);
        actions.put("groupOffsets", Groups::offsets);
        actions.put("alterGroupOffsets", Groups::alterOffsets);
        actions.put("deleteGroupOffsets", Groups::deleteOffsets);
        actions.put("deleteGroups", Groups::delete);
        actions.put("removeMembers", Groups::removeMembers);
        actions.put("groupsWithConfigs", Groups::configResources);
        actions.put("produce", Records::produce);
        actions.put("consume", Records::consume);
        Shares shares = new Shares();
        actions.put("shareOpen", shares::open);
        actions.put("sharePoll", shares::poll);
        actions.put("shareAcknowledge", shares::acknowledge);
        actions.put("shareClose", shares::close);
        actions.put("describeShareGroup", Shares::describe);
        actions.put("shareGroupOffsets", Shares::offsets);
        actions.put("alterShareGroupOffset", Shares::alterOffset);
        actions.put("deleteShareGroupOffsets", Shares::deleteOffsets);
        actions.put("deleteShareGroup", Shares::delete);
        actions.put("connect", Secured::connect);
        actions.put("exchange", Secured::exchange);
        actions.put("createToken", Secured::createToken);
        actions.put("expireToken", Secured::expireToken);
        Flood flood = new Flood();
        actions.put("floodStart", flood::start);
        actions.put("floodStop", flood::stop);
    }

    private ObjectNode answer(String line) throws IOException {
        JsonNode command = JSON.readTree(line);
        ObjectNode answer = JSON.createObjectNode();
        try {
            actions.get(command.get("do").asText()).run(command, answer);
            return answer;
        } catch (Exception thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            String error = Errors.forException(cause).name();
            StringBuilder causes = new StringBuilder(cause.toString());
            for (Throwable deeper = cause.getCause(); deeper != null; deeper = deeper.getCause()) {
                causes.append(": ").append(deeper);
            }
            return JSON.createObjectNode().put("error", error).put("message", causes.toString());
        }
    }

    static Map<String, String> strings(JsonNode object) {
        Map<String, String> strings = new LinkedHashMap<>();
        if (object != null) {
            object.properties().forEach(entry -> strings.put(entry.getKey(), entry.getValue().asText()));
        }
        return strings;
    }

    public static void main(String[] arguments) throws IOException {
        switch (arguments.length == 0 ? "" : arguments[0]) {
            case "member" -> Member.run(arguments[1]);
            case "sharer" -> Sharer.run(arguments[1]);
            case "copier" -> Copier.run(arguments[1]);
            default -> obey();
        }
    }

    private static void obey() throws IOException {
        Interop interop = new Interop();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(JSON.writeValueAsString(interop.answer(line)));
        }
    }
}
