;; Greedy, until the likeliest id tells it to misbehave: 1 loops, 2 traps, 3 answers an id past the vocabulary,
;; 4 hands back a logit that is no number, 5 refuses, 6 asks for memory, 7 answers nothing, 8 wants to stop.
;; Areas: layout 64, logits 4096, rows 8192, results 8320, history 16384 (1,024 ids), bias, config and error behind.
(module
  (memory (export "memory") 2 2)
  (data (i32.const 64)
    "\58\00\00\00" "\00\00\00\00" "\01\00\00\00" "\00\02\00\00"  ;; size, minor, max_rows, vocab_capacity 512
    "\00\10\00\00" "\00\10\00\00" "\00\20\00\00" "\80\20\00\00"  ;; logits, stride 4096, rows, results
    "\00\40\00\00" "\00\04\00\00" "\00\60\00\00" "\08\00\00\00"  ;; history, 1024 ids, bias 24576, 8 entries
    "\00\70\00\00" "\80\00\00\00" "\00\80\00\00" "\80\00\00\00") ;; config 28672, 128 bytes, error 32768, 128 bytes
  (func (export "sealhost_sampler_v1") (result i32) (i32.const 0))
  (func (export "layout") (result i32) (i32.const 64))
  (func (export "init") (result i32) (i32.const 0))
  (func (export "reset") (result i32) (i32.const 0))
  (func $answer (param $action i32) (param $token i32) (result i32)
    (i32.store (i32.const 8320) (i32.const 16))
    (i32.store (i32.const 8324) (local.get $action))
    (i32.store (i32.const 8328) (local.get $token))
    (i32.const 0))
  (func $likeliest (result i32)
    (local $i i32) (local $best i32)
    (loop $next
      (if (f32.gt (f32.load offset=4096 (i32.shl (local.get $i) (i32.const 2)))
                  (f32.load offset=4096 (i32.shl (local.get $best) (i32.const 2))))
        (then (local.set $best (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.load (i32.const 8204)))))
    (local.get $best))
  (func (export "step") (param i32) (result i32)
    (local $best i32)
    (local.set $best (call $likeliest))
    (if (i32.eq (local.get $best) (i32.const 1)) (then (loop $for_ever (br $for_ever))))
    (if (i32.eq (local.get $best) (i32.const 2)) (then (unreachable)))
    (if (i32.eq (local.get $best) (i32.const 3)) (then (return (call $answer (i32.const 1) (i32.const 260)))))
    (if (i32.eq (local.get $best) (i32.const 4))
      (then (f32.store (i32.const 4100) (f32.const nan)) (return (call $answer (i32.const 3) (i32.const 0)))))
    (if (i32.eq (local.get $best) (i32.const 5)) (then (return (i32.const -0x40000000))))
    (if (i32.eq (local.get $best) (i32.const 6))
      (then (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable)))))
    (if (i32.eq (local.get $best) (i32.const 7)) (then (return (i32.const 0))))
    (if (i32.eq (local.get $best) (i32.const 8)) (then (return (call $answer (i32.const 6) (i32.const 0)))))
    (call $answer (i32.const 1) (local.get $best))))
